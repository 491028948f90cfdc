# runtime/host/blocks.c belongs to the executable, not to a core.
ett_c_test(blocks SOURCES ${CMAKE_SOURCE_DIR}/runtime/host/blocks.c)
