rotary_test(rotate_test rotate_test.cpp)
rotary_test(checks_test checks_test.cpp)
rotary_test(threads_test threads_test.cpp)
rotary_test(laws_test laws_test.cpp)

# The kernel tests again as AArch64 programs under qemu; skipped, with the reason printed, where the tools are absent.
add_test(NAME neon COMMAND ${PROJECT_SOURCE_DIR}/scripts/test_neon.sh ${PROJECT_BINARY_DIR}/neon)
set_tests_properties(neon PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1200 COST 200 LABELS once)
