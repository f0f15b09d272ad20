# The kernels on the emulator, and where there is CUDA the verbs' tests on the real library too.
rotary_test(gpu_emulator_test gpu_emulator_test.cpp gpu_emulator_runtime_test.cpp LIBS rotary_gpu_emulated)
rotary_test(gpu_device_test gpu_device_test.cpp gpu_device_rows_test.cpp LIBS rotary_gpu_emulated mpfr gmp)
rotary_device_test(gpu_test gpu_test.cpp gpu_table_test.cpp gpu_without_table_test.cpp gpu_errors_test.cpp gpu_many_test.cpp)
rotary_device_test(gpu_fused_test gpu_fused_test.cpp gpu_fused_errors_test.cpp gpu_norms_test.cpp)
rotary_device_test(gpu_graph_test gpu_graph_test.cpp)

rotary_test(gpu_absent_test gpu_absent_test.cpp ${rotary_gpu_absent})
target_include_directories(gpu_absent_test PRIVATE ${PROJECT_SOURCE_DIR}/src)

if(ROTARY_CUDA)
  find_package(Python3 COMPONENTS Interpreter)
  if(Python3_Interpreter_FOUND)
    add_test(NAME "gpu ptx" COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/check_ptx.py ${CMAKE_CUDA_COMPILER}
                                    ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_BINARY_DIR}/ptx)
    set_tests_properties("gpu ptx" PROPERTIES TIMEOUT 900 COST 100 LABELS once)
  endif()
endif()
