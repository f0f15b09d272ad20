# cmake --install, find_package(rotary [COMPONENTS files gpu]) and pkg-config.

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rotary)
install(TARGETS ${rotary_libraries} EXPORT rotary-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT rotary-targets NAMESPACE rotary:: DESTINATION ${config_dir})
install(DIRECTORY include/rotary DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
if(NOT ROTARY_FILES)
  # A header without its library would only fail at link time.
  install(CODE "file(REMOVE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/rotary/files.h\")")
endif()

configure_package_config_file(cmake/rotary-config.cmake.in ${PROJECT_BINARY_DIR}/rotary-config.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rotary-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rotary-config.cmake ${PROJECT_BINARY_DIR}/rotary-config-version.cmake
        DESTINATION ${config_dir})

# The prefix is found from where the .pc file lies, so a tree may be moved (cmake --install --prefix).
file(RELATIVE_PATH pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/rotary.pc.in ${PROJECT_BINARY_DIR}/rotary.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rotary.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(ROTARY_FILES)
  configure_file(cmake/rotary_files.pc.in ${PROJECT_BINARY_DIR}/rotary_files.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/rotary_files.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
set(rotary_gpu_libs)
if(ROTARY_CUDA AND NOT BUILD_SHARED_LIBS)
  get_target_property(cudart CUDA::cudart_static IMPORTED_LOCATION)
  set(rotary_gpu_libs "${cudart} -ldl -lrt -pthread")
endif()
configure_file(cmake/rotary_gpu.pc.in ${PROJECT_BINARY_DIR}/rotary_gpu.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rotary_gpu.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
