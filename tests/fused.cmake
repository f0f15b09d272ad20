rotary_test(fused_test fused_test.cpp fused_errors_test.cpp)
