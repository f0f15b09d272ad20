if(ROTARY_CLI)
  rotary_test(cli_test cli_test.cpp cli_apply_test.cpp cli_learned_test.cpp cli_models_test.cpp cli_docs_test.cpp LIBS rotary::files nlohmann_json::nlohmann_json)
  target_compile_definitions(cli_test PRIVATE ROTARY_PROGRAM="$<TARGET_FILE:rotary_cli>")
  add_dependencies(cli_test rotary_cli)

  rotary_test(positions_test positions_test.cpp ${PROJECT_SOURCE_DIR}/cli/positions.cpp ${PROJECT_SOURCE_DIR}/cli/text.cpp
              LIBS rotary::files nlohmann_json::nlohmann_json)
endif()
