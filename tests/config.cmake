rotary_test(config_test config_test.cpp LIBS rotary::files)
