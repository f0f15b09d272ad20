rotary_test(learned_test learned_test.cpp LIBS rotary::files)
