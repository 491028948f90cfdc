# The base fit and the trees belong to what fits, which XGBoost decides.
foreach(test nnls boost)
  if(TARGET ett_regress_fit_core)
    ett_c_test(${test} LIBRARIES ett_regress_fit_core)
  else()
    list(APPEND ETT_SKIPPED_C_TESTS ${test})
  endif()
endforeach()
