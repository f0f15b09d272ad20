if(ROTARY_CLI)
  torch_python_test(torch_roformer_parity make_roformer.py parity $<TARGET_FILE:rotary_torch_program>)
  torch_python_test(torch_summary test_summary.py $<TARGET_FILE:rotary_torch_program>)
endif()
