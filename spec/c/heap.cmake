# runtime/host/heap.c belongs to the executable, not to a core. The sanitizer has its own heap.
if(ETT_SANITIZE OR ETT_FUZZ)
  list(APPEND ETT_SKIPPED_C_TESTS heap)
else()
  ett_c_test(heap SOURCES ${CMAKE_SOURCE_DIR}/runtime/host/heap.c)
endif()
