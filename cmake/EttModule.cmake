# ett_module(NAME foo SOURCES a.c OPENS foo BIND foo/foo.c [LIBRARIES ...] [LOADABLE])
#
# SOURCES: pure C, relative to the calling folder. They become the static library
# ett_foo_core, for C tests and other modules.
# OPENS: Lua modules. For each x, a file of BIND defines luaopen_ett_x, the module `ett.x`.
# BIND: sources of the bindings, relative to runtime/bind, or to the calling folder where
# that file exists.
# Without LOADABLE the modules are linked into the host and preloaded. With LOADABLE they
# are built as lib/ett/ett/x.so, which the first `require "ett.x"` opens; x is the first of
# OPENS, and the others are links to it. That is for libraries that may be missing
# (XGBoost, OpenBLAS, SQLite, MPI, CUDA) or load slowly: a command without YAML and traces
# starts 0.8 ms sooner.
set(ETT_LOADABLE_DIR ${CMAKE_BINARY_DIR}/lib/ett)

function(ett_module)
  cmake_parse_arguments(M "LOADABLE" "NAME" "SOURCES;OPENS;BIND;LIBRARIES" ${ARGN})
  set(core ett_${M_NAME}_core)
  add_library(${core} STATIC ${M_SOURCES})
  target_include_directories(${core} PUBLIC ${CMAKE_SOURCE_DIR}/runtime ${CMAKE_SOURCE_DIR})
  target_link_libraries(${core} PUBLIC ett_base ${M_LIBRARIES} m)
  set(bind "")
  foreach(file IN LISTS M_BIND)
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
      list(APPEND bind ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    else()
      list(APPEND bind ${CMAKE_SOURCE_DIR}/runtime/bind/${file})
    endif()
  endforeach()
  if(M_LOADABLE)
    list(POP_FRONT M_OPENS first)
    set(target ett_${first}_module)
    add_library(${target} MODULE ${bind} ${CMAKE_SOURCE_DIR}/runtime/bind/common.c)
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/runtime ${CMAKE_SOURCE_DIR})
    target_include_directories(${target} SYSTEM PRIVATE ${LUA_INCLUDE_DIRS})
    target_link_libraries(${target} PRIVATE ${core})
    set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${first}
      LIBRARY_OUTPUT_DIRECTORY ${ETT_LOADABLE_DIR}/ett)
    install(TARGETS ${target} LIBRARY DESTINATION lib/ett/ett)
    foreach(other IN LISTS M_OPENS)
      set(link ${ETT_LOADABLE_DIR}/ett/${other}.so)
      file(MAKE_DIRECTORY ${ETT_LOADABLE_DIR}/ett)
      file(CREATE_LINK ${first}.so ${link} SYMBOLIC)
      install(FILES ${link} DESTINATION lib/ett/ett)
    endforeach()
  else()
    set_property(GLOBAL APPEND PROPERTY ETT_PRELOADED ${M_OPENS})
    set_property(GLOBAL APPEND PROPERTY ETT_HOST_BINDINGS ${bind})
    set_property(GLOBAL APPEND PROPERTY ETT_HOST_CORES ${core})
  endif()
endfunction()
