if(ROTARY_FILES)
  rotary_test(origins_test origins_test.cpp origins_laws_test.cpp LIBS rotary::files nlohmann_json::nlohmann_json)
endif()
