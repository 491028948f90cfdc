# runtime/host/interrupt.c belongs to the executable, not to a core.
ett_c_test(interrupt SOURCES ${CMAKE_SOURCE_DIR}/runtime/host/interrupt.c
           ${CMAKE_SOURCE_DIR}/runtime/bind/common.c LIBRARIES PkgConfig::LUA)
