# The CPU back end needs OpenBLAS. The linker replaces what it asks about memory and time.
if(TARGET ett_cpu_core)
  ett_c_test(cpu LIBRARIES ett_cpu_core)
  target_link_options(cpu_test PRIVATE -Wl,--wrap=ett_sample_memory_free
                      -Wl,--wrap=clock_gettime
                      -Wl,--wrap=ett_sample_pages_new -Wl,--wrap=ett_sample_pages_free)
else()
  list(APPEND ETT_SKIPPED_C_TESTS cpu)
endif()
