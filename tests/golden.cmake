if(ROTARY_FILES)
  rotary_test(golden_test golden_test.cpp LIBS rotary::files nlohmann_json::nlohmann_json)
endif()
