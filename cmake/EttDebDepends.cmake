# Run by cpack between installing and packing: the Debian packages of the shared libraries that ett's programs need.
# CPACK_DEBIAN_PACKAGE_SHLIBDEPS answers the same, but starts two processes for each file of the package.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
find_program(SHLIBDEPS dpkg-shlibdeps)
if(NOT SHLIBDEPS)
  message(WARNING "no dpkg-shlibdeps (dpkg-dev): the package will not name the shared libraries that it needs")
  return()
endif()
set(programs)
file(GLOB_RECURSE files LIST_DIRECTORIES false "${CPACK_TEMPORARY_DIRECTORY}/*")
foreach(file IN LISTS files)
  file(READ "${file}" head LIMIT 4 HEX)
  if(head STREQUAL "7f454c46" AND NOT IS_SYMLINK "${file}") # ELF
    list(APPEND programs "${file}")
  endif()
endforeach()
set(folder "${CPACK_TOPLEVEL_DIRECTORY}/depends")
file(WRITE "${folder}/debian/control" "") # without this file it does not run
execute_process(COMMAND ${SHLIBDEPS} --ignore-missing-info -O ${programs} WORKING_DIRECTORY "${folder}"
                OUTPUT_VARIABLE depends ERROR_VARIABLE errors RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "dpkg-shlibdeps: ${errors}")
endif()
string(REGEX REPLACE "^.*Depends=" "" depends "${depends}")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "${depends}, ${CPACK_DEBIAN_PACKAGE_DEPENDS}")
