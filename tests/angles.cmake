rotary_test(angles_test angles_test.cpp LIBS mpfr gmp)
rotary_test(table_test table_test.cpp)
