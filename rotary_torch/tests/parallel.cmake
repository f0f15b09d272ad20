# Several processes: a fake NCCL for torch_test, and real worlds of MPI driven by test_mpi.py.
add_library(fake_nccl MODULE fake_nccl.cpp)
target_link_libraries(fake_nccl PRIVATE rotary_flags)
target_compile_definitions(torch_test PRIVATE FAKE_NCCL="$<TARGET_FILE:fake_nccl>")
add_dependencies(torch_test fake_nccl)

if(MPI_CXX_FOUND)
  add_executable(mpi_check mpi_check.cpp)
  target_link_libraries(mpi_check PRIVATE rotary_flags rotary_torch_models)
  if(ROTARY_CLI)
    set(torch_mpi_program $<TARGET_FILE:rotary_torch_program>)
  endif()
  torch_python_test(torch_mpi test_mpi.py ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:mpi_check> $<TARGET_FILE:fake_nccl>
                    ${torch_mpi_program})
  set_tests_properties(torch_mpi PROPERTIES PROCESSORS 2)
endif()
torch_python_test(torch_scaling_model test_scaling_model.py ${PROJECT_SOURCE_DIR})
