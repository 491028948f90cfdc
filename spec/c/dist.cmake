# Needs MPI; the job is one rank. The linker replaces the clock and MPI_Bcast.
if(TARGET ett_dist_core)
  ett_c_test(dist LIBRARIES ett_dist_core)
  target_link_options(dist_test PRIVATE -Wl,--wrap=clock_gettime -Wl,--wrap=MPI_Bcast)
  if(ETT_SANITIZE) # Open MPI leaks what MPI_Init made
    set_tests_properties(c/dist PROPERTIES
                         ENVIRONMENT "${ETT_TEST_ENVIRONMENT};ASAN_OPTIONS=detect_leaks=0")
  endif()
else()
  list(APPEND ETT_SKIPPED_C_TESTS dist)
endif()
