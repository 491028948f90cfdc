# runtime/host/allocator.c belongs to the executable, not to a core.
ett_c_test(allocator SOURCES ${CMAKE_SOURCE_DIR}/runtime/host/allocator.c LIBRARIES PkgConfig::LUA)
