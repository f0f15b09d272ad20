rotary_test(config_test config_test.cpp config_parts_test.cpp config_errors_test.cpp config_spellings_test.cpp
            config_mutations_test.cpp config_remote_test.cpp config_coverage_test.cpp config_write_test.cpp LIBS rotary::files nlohmann_json::nlohmann_json)
