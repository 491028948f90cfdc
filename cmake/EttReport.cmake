# Prints what was found, at the end of a configure.
foreach(feature CUDA NCCL MPI)
  if(NOT DEFINED ETT_HAVE_${feature})
    set(ETT_HAVE_${feature} "not looked for")
  endif()
  message(STATUS "ett: ${feature}: ${ETT_HAVE_${feature}}")
endforeach()
