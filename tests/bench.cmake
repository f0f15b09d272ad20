if(ROTARY_CLI)
  rotary_test(bench_test bench_test.cpp bench_command_test.cpp LIBS rotary_cli_bench rotary::gpu)
  target_compile_definitions(bench_test PRIVATE ROTARY_PROGRAM="$<TARGET_FILE:rotary_cli>")
  add_dependencies(bench_test rotary_cli)
  if(ROTARY_CUDA)
    add_dependencies(cuda_tests bench_test)
  endif()

  # On a device: the emulated one; and where there is CUDA the real one.
  rotary_device_test(bench_cuda_test bench_cuda_test.cpp LIBS rotary_cli_bench)
endif()
