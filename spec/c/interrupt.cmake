# The host's answer to signals is no core: it belongs to the executable.
ett_c_test(interrupt SOURCES ${CMAKE_SOURCE_DIR}/runtime/host/interrupt.c LIBRARIES PkgConfig::LUA)
