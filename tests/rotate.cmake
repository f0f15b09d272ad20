rotary_test(rotate_test rotate_test.cpp)
rotary_test(checks_test checks_test.cpp)
rotary_test(threads_test threads_test.cpp)
rotary_test(laws_test laws_test.cpp)
