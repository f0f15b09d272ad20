#include <rotary/self_test.h>

int main() { rotary::self_test(); }
