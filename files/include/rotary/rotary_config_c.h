/* A model's config.json for C: rotary/config.h in the form of rotary_c.h. Link rotary_files. */
#ifndef ROTARY_ROTARY_CONFIG_C_H
#define ROTARY_ROTARY_CONFIG_C_H

#include "rotary/rotary_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The statuses of reading a file, in addition to those of rotary_c.h. */
enum {
  ROTARY_FILE = 9,            /* a file cannot be opened or read */
  ROTARY_FORMAT = 10,         /* a file that is not valid in its format */
  ROTARY_TENSOR = 11,         /* a tensor of a GGUF file that is missing or unsuitable */
  ROTARY_JSON = 12,           /* text that is not JSON */
  ROTARY_CONFIG_KEY = 13,     /* a rope key that nothing reads */
  ROTARY_CONFIG_VALUE = 14,   /* a value that breaks a rule */
  ROTARY_CONFIG_MISSING = 15, /* a value that has no default is missing */
  ROTARY_MODEL_TYPE = 16,     /* an unknown model_type, and no pairing given */
  ROTARY_ROPE = 17            /* a model has no such rope */
};

/* Reads every later model by a newer sheet of models, rotary/config.h: use_models(); null: by the one built in or named
 * by the environment's ROTARY_MODELS. After an error the earlier sheet stays in use. FILE, FORMAT, JSON. */
ROTARY_C_API rotary_status rotary_use_models(const char* path);

typedef struct rotary_model rotary_model;
/* Reads config.json of Hugging Face, params.json of Mistral and Meta, or a GGUF file; path, UTF-8, is the file or the
 * folder of a JSON file. pairing is used if the model_type is unknown, and overrides it if it is known; 0: not given.
 * The statuses above, PAIRING, VALUE. */
ROTARY_C_API rotary_status rotary_model_read(const char *path, int32_t pairing, rotary_model **model);
/* The same for the text of a config.json. */
ROTARY_C_API rotary_status rotary_model_parse(const char *json, int32_t pairing, rotary_model **model);
ROTARY_C_API void rotary_model_free(rotary_model *model);
ROTARY_C_API int32_t rotary_model_ropes(const rotary_model *model);
/* Notes on how the file was read, one sentence each, numbered from 0; null after the last. Valid until the free. */
ROTARY_C_API const char *rotary_model_note(const rotary_model *model, int32_t note);
/* The part of a note ("" for the file), and its kind, a name of NoteKind in rotary/config.h: "unread". */
ROTARY_C_API const char *rotary_model_note_part(const rotary_model *model, int32_t note);
ROTARY_C_API const char *rotary_model_note_kind(const rotary_model *model, int32_t note);
/* The number of the first rope of a layer, from 0, in a part: "text_config", "vision_config"; null or "": the text of
 * most models. -1: the layer has no rope; -2: there is no such layer or part, and rotary_error() says so. */
ROTARY_C_API int32_t rotary_model_rope_of_layer(const rotary_model* model, int32_t layer, const char* part);

/* One rope of a model; pointers are valid until the free. */
typedef struct rotary_model_rope {
  uint32_t size;
  int32_t head_dim;
  int32_t rotary_dim;
  int32_t first; /* element of the head where the rotated block begins: rotary_heads::first */
  int32_t pairing;
  int32_t heads;
  int32_t kv_heads;
  int32_t axes; /* coordinates of a position */
  int32_t scaling;
  int32_t depends_on_length; /* not 0: make new frequencies as the text grows */
  double base;
  int64_t context; /* the most tokens the model is made for; 0: not in the config */
  const char *part;
  double softmax_factor; /* multiplies the scale of the softmax, beside the attention factor; 1 for most models */
} rotary_model_rope;
ROTARY_C_API void rotary_model_rope_init(rotary_model_rope *rope, size_t size);
/* ROPE, VALUE. */
ROTARY_C_API rotary_status rotary_model_rope_get(const rotary_model *model, int32_t rope, rotary_model_rope *values);
/* length: as for rotary_frequencies_make. ROPE, LENGTH, SCALING, MEMORY. */
ROTARY_C_API rotary_status rotary_model_frequencies_make(const rotary_model *model, int32_t rope, int64_t length,
                                                         rotary_frequencies **frequencies);

#ifdef __cplusplus
}
#endif

#endif
