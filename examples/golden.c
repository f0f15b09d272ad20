/* The test of a rope that somebody else wrote, here this file's own: llama.h says what is right. It is made by
 * rotary golden Llama-3.1-8B --output llama.h
 */
#include <math.h>
#include <stdio.h>

#include "llama.h"

/* The implementation under test: one head at one position, angles in float. */
static void turn(float *head, int64_t position) {
  for (int i = 0; i < llama_pairs; ++i) {
    const float angle = (float)position * (float)llama_inv_freq[i];
    const float a = head[i], b = head[i + llama_pairs], c = cosf(angle), s = sinf(angle);
    head[i] = a * c - b * s;
    head[i + llama_pairs] = b * c + a * s;
  }
}

int main(void) {
  int wrong = 0;
  for (int t = 0; t < llama_tokens; ++t) {
    double worst = 0;
    for (int h = 0; h < llama_heads; ++h) {
      const int begin = (t * llama_heads + h) * llama_head_dim;
      float head[llama_head_dim];
      for (int d = 0; d < llama_head_dim; ++d) head[d] = llama_x[begin + d];
      turn(head, llama_positions[t]);
      for (int d = 0; d < llama_head_dim; ++d) worst = fmax(worst, fabs((double)head[d] - llama_rotated[begin + d]));
    }
    const int bad = !(worst <= llama_tolerance_float32_angles[t]);
    printf("position %6ld: off by %.1e, allowed %.1e%s\n", (long)llama_positions[t], worst,
           llama_tolerance_float32_angles[t], bad ? "  WRONG" : "");
    wrong += bad;
  }
  return wrong != 0;
}
