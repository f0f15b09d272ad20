/* A program of one rotation through the C interface, and of a call that is refused: the exit status counts what was
 * wrong. With an argument, f16 must be refused as left out. */
#include <rotary/rotary_c.h>
#include <stdio.h>

static float x[4][8][128];

int main(int argc, char **argv) {
  rotary_rope rope;
  rotary_frequencies *frequencies = NULL;
  rotary_table *table = NULL;
  rotary_positions at;
  rotary_heads heads;
  int wrong = 0;
  (void)argv;
  rotary_rope_init(&rope, sizeof rope);
  rope.head_dim = 128;
  wrong += rotary_frequencies_make(&rope, 0, &frequencies) != ROTARY_PAIRING;
  fprintf(stderr, "%s\n", rotary_error());
  rope.pairing = ROTARY_HALF;
  wrong += rotary_frequencies_make(&rope, 0, &frequencies) != ROTARY_OK;
  wrong += rotary_table_make(frequencies, 4, &table) != ROTARY_OK;
  rotary_positions_init(&at, sizeof at);
  at.tokens = 4;
  wrong += rotary_table_assign(table, frequencies, &at, ROTARY_EXACT, ROTARY_F32) != ROTARY_OK;
  rotary_heads_init(&heads, sizeof heads);
  heads.data = x;
  heads.tokens = 4;
  heads.heads = 8;
  heads.head_dim = 128;
  wrong += rotary_heads_order(&heads, "bthd") != ROTARY_OK;
  x[1][7][0] = 1;
  wrong += rotary_rotate(&heads, NULL, table, NULL) != ROTARY_OK;
  wrong += x[1][7][0] != 0x1.14a280p-1f || x[1][7][64] != 0x1.aed548p-1f; /* cos 1, sin 1 */
  heads.dtype = ROTARY_F16;
  wrong += rotary_rotate(&heads, NULL, table, NULL) != (argc > 1 ? ROTARY_DTYPE : ROTARY_OK);
  fprintf(stderr, "%s\n", rotary_error());
  rotary_table_free(table);
  rotary_frequencies_free(frequencies);
  return wrong;
}
