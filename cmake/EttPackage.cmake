# What an installation has beside the tree: man pages, completion scripts; and `cpack`, which makes a .deb.
if(NOT ETT_SANITIZE AND NOT ETT_FUZZ)
  install(CODE "
    set(ett \"${CMAKE_BINARY_DIR}/bin/ett\")
    set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share\")
    file(GLOB files \"${CMAKE_SOURCE_DIR}/lua/ett/cli/commands/*.lua\")
    file(MAKE_DIRECTORY \"\${share}/man/man1\")
    execute_process(COMMAND \${ett} manual OUTPUT_FILE \"\${share}/man/man1/ett.1\" COMMAND_ERROR_IS_FATAL ANY)
    foreach(file IN LISTS files)
      get_filename_component(name \"\${file}\" NAME_WE)
      execute_process(COMMAND \${ett} manual \${name} OUTPUT_FILE \"\${share}/man/man1/ett-\${name}.1\"
                      COMMAND_ERROR_IS_FATAL ANY)
    endforeach()
    foreach(target bash:bash-completion/completions/ett fish:fish/vendor_completions.d/ett.fish
                   zsh:zsh/site-functions/_ett)
      string(REPLACE \":\" \";\" target \${target})
      list(GET target 0 shell)
      list(GET target 1 path)
      get_filename_component(folder \"\${share}/\${path}\" DIRECTORY)
      file(MAKE_DIRECTORY \"\${folder}\")
      execute_process(COMMAND \${ett} completion \${shell} OUTPUT_FILE \"\${share}/\${path}\"
                      COMMAND_ERROR_IS_FATAL ANY)
    endforeach()")
endif()

install(FILES ACCURACY.md CHANGELOG.md NOTICE README.md DESTINATION share/doc/ett)

# The module `ett` of a plain Lua interpreter: ett.lua in the folder that ett-scm-1.rockspec names.
if(ETT_ROCK_LUA_FOLDER)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/rock/ett.lua @ONLY CONTENT
"--- ett as a module of Lua 5.4; its tree stays where it was installed.
return assert(package.loadlib('@CMAKE_INSTALL_PREFIX@/lib/ett/libett.so', 'luaopen_ett'))()
")
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rock/ett.lua DESTINATION ${ETT_ROCK_LUA_FOLDER})
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ett)
set(CPACK_PACKAGE_CONTACT "the ett engineers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "estimates how long, how much memory and how much money training takes")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# Adds the libraries of the programs and of loadable modules (XGBoost, OpenBLAS, MPI).
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/EttDebDepends.cmake")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "lua-filesystem, lua-cjson, lua-argparse")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin, python3")
include(CPack)
