# The base fit belongs to what fits, which XGBoost decides.
if(TARGET ett_regress_fit_core)
  ett_c_test(nnls LIBRARIES ett_regress_fit_core)
else()
  list(APPEND ETT_SKIPPED_C_TESTS nnls)
endif()
