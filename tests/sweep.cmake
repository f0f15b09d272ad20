if(ROTARY_FILES AND ROTARY_CLI)
  rotary_test(sweep_test sweep_test.cpp sweep.cpp models_page.cpp ${PROJECT_SOURCE_DIR}/cli/model_sheet.cpp
              ${PROJECT_SOURCE_DIR}/cli/text.cpp LIBS rotary::files nlohmann_json::nlohmann_json)
endif()
