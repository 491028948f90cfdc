# ett_module(NAME foo SOURCES a.c BINDINGS foo [BINDING_PARTS ...] [LIBRARIES ...] [LOADABLE])
#
# SOURCES are pure C in runtime/foo/. Each binding x is runtime/bind/x.c and defines
# luaopen_ett_x, the Lua module `ett.x`; a part p is runtime/bind/p.c, more of a binding
# and no module itself. Without LOADABLE the module is linked into the host and stands in
# package.preload; with it, it becomes lib/ett/ett/x.so, opened by the first
# `require "ett.x"`: for everything whose libraries are slow to load or may be missing
# (XGBoost, OpenBLAS, SQLite, MPI, CUDA).
# The pure core is the static library ett_foo_core, for C tests and other modules.
define_property(GLOBAL PROPERTY ETT_PRELOADED BRIEF_DOCS "preloaded" FULL_DOCS "preloaded")
define_property(GLOBAL PROPERTY ETT_HOST_CORES BRIEF_DOCS "cores" FULL_DOCS "cores")
set(ETT_LOADABLE_DIR ${CMAKE_BINARY_DIR}/lib/ett)

function(ett_module)
  cmake_parse_arguments(M "LOADABLE" "NAME" "SOURCES;BINDINGS;BINDING_PARTS;LIBRARIES" ${ARGN})
  set(core ett_${M_NAME}_core)
  if(M_SOURCES)
    add_library(${core} STATIC ${M_SOURCES})
    target_include_directories(${core} PUBLIC ${CMAKE_SOURCE_DIR}/runtime ${CMAKE_SOURCE_DIR})
    target_link_libraries(${core} PUBLIC ett_base ${M_LIBRARIES} m)
  else()
    add_library(${core} INTERFACE)
    target_include_directories(${core} INTERFACE ${CMAKE_SOURCE_DIR}/runtime)
    target_link_libraries(${core} INTERFACE ett_base ${M_LIBRARIES} m)
  endif()
  if(M_LOADABLE)
    foreach(binding IN LISTS M_BINDINGS)
      set(target ett_${binding}_module)
      add_library(${target} MODULE ${CMAKE_SOURCE_DIR}/runtime/bind/${binding}.c
                                   ${CMAKE_SOURCE_DIR}/runtime/bind/common.c)
      foreach(part IN LISTS M_BINDING_PARTS)
        target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/runtime/bind/${part}.c)
      endforeach()
      target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/runtime)
      target_include_directories(${target} SYSTEM PRIVATE ${LUA_INCLUDE_DIRS})
      target_link_libraries(${target} PRIVATE ${core})
      set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${binding}
        LIBRARY_OUTPUT_DIRECTORY ${ETT_LOADABLE_DIR}/ett)
      install(TARGETS ${target} LIBRARY DESTINATION lib/ett/ett)
    endforeach()
  else()
    set_property(GLOBAL APPEND PROPERTY ETT_PRELOADED ${M_BINDINGS})
    set_property(GLOBAL APPEND PROPERTY ETT_BINDING_PARTS ${M_BINDING_PARTS})
    set_property(GLOBAL APPEND PROPERTY ETT_HOST_CORES ${core})
  endif()
endfunction()
