# cpack -G DEB: librotary-dev and rotary, and of a shared build librotary0.1, which librotary-dev then needs. The
# libraries are linked into the program. scripts/packages.sh makes the packages as for Debian.

set(so_version ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME librotary-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENTS_ALL library)
if(ROTARY_CLI)
  list(APPEND CPACK_COMPONENTS_ALL program)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME rotary)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
endif()
if(BUILD_SHARED_LIBS)
  list(APPEND CPACK_COMPONENTS_ALL runtime)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME librotary${so_version})
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "librotary${so_version} (= ${PROJECT_VERSION})")
endif()
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Headers, and what CMake and pkg-config find.")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "The shared libraries, for C++20 and C.")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "The program: inspects, checks and converts.")
file(WRITE ${PROJECT_BINARY_DIR}/copyright
     "rotary is under the Apache License 2.0: /usr/share/common-licenses/Apache-2.0\n")
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  install(FILES ${PROJECT_BINARY_DIR}/copyright
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}
          COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_PACKAGE_CONTACT "the authors of rotary <rotary@localhost>")
set(CPACK_STRIP_FILES ON)
include(CPack)
