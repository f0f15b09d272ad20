/* A decoder with a KV cache, in C99: the prompt at once, then token by token. One table serves all layers of a step;
 * rotary_table_assign makes its row in the same memory, so that a step allocates nothing.
 *   gcc -std=c99 decode.c $(pkg-config --cflags --libs rotary) -o decode
 */
#include <rotary/rotary_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_DIM = 128, HEADS = 8, KV_HEADS = 2, PROMPT = 12, TOKENS = 16 };

static float q[TOKENS][HEADS][HEAD_DIM], k[TOKENS][KV_HEADS][HEAD_DIM], v[TOKENS][KV_HEADS][HEAD_DIM];
static float turned_q[2][TOKENS][HEADS][HEAD_DIM];
static uint16_t k_cache[2][TOKENS][KV_HEADS][HEAD_DIM], v_cache[2][TOKENS][KV_HEADS][HEAD_DIM]; /* f16 */

static void check(rotary_status status) {
  if (status == ROTARY_OK) return;
  fprintf(stderr, "decode: %s: %s\n", rotary_status_name(status), rotary_error());
  exit(1);
}

static void fill(float *x, int count, int period) {
  int i;
  for (i = 0; i < count; ++i) x[i] = (float)(i % period) / 64;
}

static rotary_heads heads_of(void *data, int64_t tokens, int64_t count) {
  rotary_heads x;
  rotary_heads_init(&x, sizeof x);
  x.data = data;
  x.tokens = tokens;
  x.heads = count;
  x.head_dim = HEAD_DIM;
  check(rotary_heads_order(&x, "bthd"));
  return x;
}

/* Tokens [first, first + count): q is rotated, k goes rotated and v as it is into the cache of f16. */
static void step(rotary_table *table, const rotary_frequencies *frequencies, int which, int64_t first, int64_t count) {
  const rotary_heads from_q = heads_of(q[first], count, HEADS), to_q = heads_of(turned_q[which][first], count, HEADS);
  const rotary_heads from_k = heads_of(k[first], count, KV_HEADS), from_v = heads_of(v[first], count, KV_HEADS);
  rotary_positions positions;
  rotary_cache cache;
  rotary_positions_init(&positions, sizeof positions);
  positions.first = first;
  positions.tokens = count;
  check(rotary_table_assign(table, frequencies, &positions, ROTARY_EXACT, ROTARY_F32));

  rotary_cache_init(&cache, sizeof cache);
  cache.type = ROTARY_CACHE_F16;
  cache.k = k_cache[which];
  cache.v = v_cache[which];
  cache.pages = 1;
  cache.page_size = TOKENS;
  cache.heads = KV_HEADS;
  cache.head_dim = HEAD_DIM;
  cache.token_stride = KV_HEADS * HEAD_DIM;
  cache.head_stride = HEAD_DIM;
  cache.first = first;
  check(rotary_rotate_append(&from_q, &to_q, &from_k, &from_v, table, &cache, NULL)); /* once for each layer */
}

int main(void) {
  rotary_rope rope;
  rotary_frequencies *frequencies;
  rotary_table *table;
  int64_t at;
  int same;

  rotary_rope_init(&rope, sizeof rope);
  rope.head_dim = HEAD_DIM;
  rope.base = 1000000;
  rope.pairing = ROTARY_HALF;
  rope.scaling = ROTARY_YARN;
  rope.factor = 4;
  rope.trained_length = 32768;
  check(rotary_frequencies_make(&rope, 0, &frequencies));
  check(rotary_table_make(frequencies, TOKENS, &table));

  fill((float *)q, TOKENS * HEADS * HEAD_DIM, 89);
  fill((float *)k, TOKENS * KV_HEADS * HEAD_DIM, 97);
  fill((float *)v, TOKENS * KV_HEADS * HEAD_DIM, 31);

  step(table, frequencies, 0, 0, PROMPT);
  for (at = PROMPT; at < TOKENS; ++at) step(table, frequencies, 0, at, 1);
  step(table, frequencies, 1, 0, TOKENS);

  same = memcmp(turned_q[0], turned_q[1], sizeof turned_q[0]) == 0 &&
         memcmp(k_cache[0], k_cache[1], sizeof k_cache[0]) == 0 &&
         memcmp(v_cache[0], v_cache[1], sizeof v_cache[0]) == 0;
  printf("token by token and all at once: %s\n", same ? "the same bits" : "DIFFERENT");
  rotary_table_free(table);
  rotary_frequencies_free(frequencies);
  return same ? 0 : 1;
}
