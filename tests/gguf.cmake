if(ROTARY_FILES)
  rotary_test(gguf_test gguf_test.cpp gguf_hostile_test.cpp LIBS rotary::files nlohmann_json::nlohmann_json)
endif()
