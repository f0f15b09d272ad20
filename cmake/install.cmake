# cmake --install, find_package(rotary [COMPONENTS c files files_c tools gpu torch torch_models]), pkg-config and cpack.

include(CMakePackageConfigHelpers)
# cmake --install BUILD --component library: without the programs, and without what a shared build has in runtime.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME library)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rotary)
# gpu is exported by itself: where it needs the CUDA toolkit, the others do not.
foreach(library IN LISTS rotary_libraries rotary_libraries_c)
  set(export rotary-targets)
  if(library STREQUAL "rotary_gpu")
    set(export rotary-gpu-targets)
  endif()
  install(TARGETS ${library} EXPORT ${export}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT library
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endforeach()
install(EXPORT rotary-targets NAMESPACE rotary:: DESTINATION ${config_dir})
install(EXPORT rotary-gpu-targets NAMESPACE rotary:: DESTINATION ${config_dir})
if(ROTARY_TORCH)
  install(EXPORT rotary-torch-targets NAMESPACE rotary:: DESTINATION ${config_dir})
endif()
# A header without its library would only fail at link time.
install(DIRECTORY core/include/ gpu/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(ROTARY_FILES)
  install(DIRECTORY files/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
if(ROTARY_TOOLS)
  install(DIRECTORY tools/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
elseif(ROTARY_TORCH_MODELS)  # whose attention.h has its SlidingWindow, a header alone
  install(FILES tools/include/rotary/positions.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rotary)
endif()

# A static rotary_gpu leaves the CUDA runtime, static too, to whoever links it.
set(rotary_cudart 0)
set(cudart_libdir)
set(cudart_libs)
if(ROTARY_CUDA AND NOT BUILD_SHARED_LIBS)
  set(rotary_cudart ${CUDAToolkit_VERSION_MAJOR})
  get_target_property(cudart CUDA::cudart_static IMPORTED_LOCATION)
  get_filename_component(cudart_libdir "${cudart}" DIRECTORY)
  # By -l: pkg-config 0.29 puts a file's name before every library.
  set(cudart_libs "-L\${cudart_libdir} -lcudart_static -ldl -lrt -lpthread")
endif()

configure_package_config_file(cmake/rotary-config.cmake.in ${PROJECT_BINARY_DIR}/rotary-config.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rotary-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rotary-config.cmake ${PROJECT_BINARY_DIR}/rotary-config-version.cmake
        DESTINATION ${config_dir})

# The prefix is found from where the .pc file lies, so a tree may be moved (cmake --install --prefix).
get_target_property(pc_cxx_runtime rotary rotary_cxx_runtime)
string(REPLACE ";" " " pc_cxx_runtime "${pc_cxx_runtime}")
file(RELATIVE_PATH pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
foreach(library IN LISTS rotary_libraries)
  configure_file(cmake/${library}.pc.in ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

if(PROJECT_IS_TOP_LEVEL)
  include(cmake/packages.cmake)
endif()
