rotary_test(config_test config_test.cpp config_parts_test.cpp config_errors_test.cpp LIBS rotary::files)
