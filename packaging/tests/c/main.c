/* rotary_c.h in a program of C99, or of C++17 or older. */
#include <rotary/rotary_c.h>
#include <stdio.h>

#ifdef __cplusplus
#if __cplusplus > 201703L
#error "rotary has lifted the standard of a program that calls rotary_c.h"
#endif
#elif __STDC_VERSION__ != 199901L
#error "rotary has changed the standard of a program that calls rotary_c.h"
#endif

int main(void) {
  if (rotary_self_test() != ROTARY_OK) {
    fprintf(stderr, "%s\n", rotary_error());
    return 1;
  }
  printf("rotary %s\n", rotary_version());
  return 0;
}
