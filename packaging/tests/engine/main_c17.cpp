#include "../c/main.c"
