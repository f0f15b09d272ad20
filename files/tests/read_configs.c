/* read_configs.cpp by the C interface. */
#include <rotary/rotary_config_c.h>
#include <stdio.h>

static rotary_status print_rope(const rotary_model *model, int32_t number) {
  rotary_model_rope rope;
  rotary_frequencies *f = NULL;
  rotary_status status;
  int32_t pair;
  rotary_model_rope_init(&rope, sizeof rope);
  status = rotary_model_rope_get(model, number, &rope);
  if (status == ROTARY_OK) status = rotary_model_frequencies_make(model, number, 8192, &f);
  if (status != ROTARY_OK) return status;
  printf("%s: base %a, head_dim %d, rotary_dim %d, first %d, heads %d and %d, factors %a %a\n", rope.part, rope.base,
         rope.head_dim, rope.rotary_dim, rope.first, rope.heads, rope.kv_heads, rotary_frequencies_attention_factor(f),
         rope.softmax_factor);
  for (pair = 0; pair < rotary_frequencies_pairs(f); ++pair) printf("%a\n", rotary_frequencies_inv_freq(f)[pair]);
  rotary_frequencies_free(f);
  return ROTARY_OK;
}

static rotary_status print_model(const char *path) {
  rotary_model *model = NULL;
  rotary_status status = rotary_model_read(path, 0, &model);
  int32_t i;
  if (status != ROTARY_OK) return status;
  for (i = 0; rotary_model_note(model, i) != NULL; ++i) puts(rotary_model_note(model, i));
  for (i = 0; i < rotary_model_ropes(model) && status == ROTARY_OK; ++i) status = print_rope(model, i);
  rotary_model_free(model);
  return status;
}

int main(int argc, char **argv) {
  int i;
  for (i = 1; i < argc; ++i) {
    const rotary_status status = print_model(argv[i]);
    if (status != ROTARY_OK) printf("%s %s\n", rotary_status_name(status), rotary_error());
  }
  return 0;
}
