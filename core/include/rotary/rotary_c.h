/* rotary for C99 and C++11: the chain of rotary.h for C, and for foreign-function interfaces.
 *
 *   rope --rotary_frequencies_make--> frequencies --rotary_table_assign(positions)--> table --rotary_rotate--> heads
 *
 * Functions that can fail return a status: ROTARY_OK or a code; rotary_error() is the sentence. No exception leaves a
 * function, and nothing is printed. All functions may be called from several threads at a time. They may rotate by the
 * same table; assigning or borrowing needs it alone. Only the _make functions allocate memory, and a table where
 * it grows, borrowed before, or has new frequencies of another kind; other functions that allocate say so.
 *
 * Constants of each kind have numbers of their own, so a constant of another kind is refused, and 0 is none of them.
 *
 * Structs begin with their size: fill them by their _init function, `rotary_heads x; rotary_heads_init(&x, sizeof x);`,
 * then set the fields that differ. A new version adds fields at the end; in a shorter struct they have their defaults.
 *
 * Results equal those of the C++ interface, bit for bit: see rotary.h, rope.h, table.h, cache.h. Capital words at the
 * end of a comment are the statuses that the function can return.
 */
#ifndef ROTARY_ROTARY_C_H
#define ROTARY_ROTARY_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define ROTARY_C_API __attribute__((visibility("default")))
#else
#define ROTARY_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors -------------------------------------------------------------------------------------------------- */

/* The codes of rotary/error.h, which docs/errors.md describes. A new version may add some. */
typedef int32_t rotary_status;
enum {
  ROTARY_OK = 0,
  ROTARY_SHAPE = 1,    /* sizes that do not fit each other */
  ROTARY_DTYPE = 2,    /* an unknown element type, or data that is not aligned to it */
  ROTARY_ALIAS = 3,    /* memory that overlaps where it must not */
  ROTARY_POSITION = 4, /* an invalid position */
  ROTARY_SCALING = 5,  /* an invalid base, scaling or frequency */
  ROTARY_PAIRING = 6,  /* a pairing that is unset or unknown */
  ROTARY_LENGTH = 7,   /* a length is needed and was not given */
  ROTARY_TARGET = 8,   /* an instruction set that is unknown or that this machine lacks */
  ROTARY_VALUE = 18,   /* a number or a word outside its range, or a null argument (null data is SHAPE) */
  ROTARY_CHECK = 27,   /* a check of this build's own results failed */
  ROTARY_MEMORY = 28,  /* out of memory, or the system refused threads */
  ROTARY_INTERNAL = 29 /* a defect of this library */
};
/* "SHAPE", ...; "OK"; "unknown" for other values. Never null. */
ROTARY_C_API const char *rotary_status_name(rotary_status status);
/* "[operation] rule but got value" of the last function that failed in this thread; "" before the first. */
ROTARY_C_API const char *rotary_error(void);

/* The version of the linked library, as "1.2.3". */
ROTARY_C_API const char *rotary_version(void);
/* Checks that this build computes the promised bits: call it once if the build is not the project's own. CHECK. */
ROTARY_C_API rotary_status rotary_self_test(void);
/* The instruction set in use: "avx2", ... Null if the environment's ROTARY_TARGET names one that does not run. */
ROTARY_C_API const char *rotary_target(void);
/* Sets the instruction set of the whole process; "" restores the best. TARGET. */
ROTARY_C_API rotary_status rotary_use_target(const char *name);
/* Chooses the instruction set and reads the sizes of the machine's caches. Without this call the first table or
 * rotation of a process does it: it reads /sys/devices/system/cpu and allocates. TARGET. */
ROTARY_C_API rotary_status rotary_prepare(void);

/* ---- a rope, as a model card describes it ----------------------------------------------------------------------- */

/* The two elements that rotate together, with n pairs. There is no default. */
enum {
  ROTARY_HALF = 101,               /* (x[i], x[i + n]): "rotate_half", GPT-NeoX, most of Hugging Face */
  ROTARY_INTERLEAVED = 102,        /* (x[2i], x[2i + 1]): RoFormer, GPT-J, Meta's own Llama */
  ROTARY_INTERLEAVED_TO_HALF = 103 /* reads (2i, 2i + 1), writes (i, i + n): DeepSeek-V3's family in Hugging Face */
};

/* Scalings and the fields that each reads; rotary/rope.h has the formulas and their sources. */
enum {
  ROTARY_UNSCALED = 200,
  ROTARY_LINEAR = 201,       /* factor */
  ROTARY_NTK = 202,          /* factor */
  ROTARY_NTK_FIXED = 203,    /* factor, mixed_b */
  ROTARY_DYNAMIC = 204,      /* factor, trained_length */
  ROTARY_YARN = 205,         /* factor, trained_length, beta_fast to attn_factor */
  ROTARY_LONGROPE = 206,     /* factor, trained_length, short_factor to long_mscale */
  ROTARY_LLAMA3 = 207,       /* factor, trained_length, low, high */
  ROTARY_PROPORTIONAL = 208, /* factor, fraction */
  ROTARY_YARN_LOG = 209,     /* factor, trained_length, beta_fast, beta_slow, extrapolation_factor */
  ROTARY_THETA_SCALE = 210   /* factor, trained_length */
};

/* Numbers that may be absent are NaN if they are. Lists have one value for each pair, rotary_dim / 2 values, and are
 * null if absent; they are read during the call. A number, flag or list that the scaling does not read keeps its
 * default (else VALUE); trained_length may always be set. */
typedef struct rotary_rope {
  uint32_t size;
  int32_t head_dim;
  int32_t rotary_dim; /* elements of the rotated block, even; 0, the default: head_dim */
  int32_t pairing;
  double base; /* default 10000 */
  int32_t scaling;      /* default ROTARY_UNSCALED */
  int32_t exponent_dim; /* r in b^(-2i/r); 0, the default: rotary_dim */
  int32_t clockwise;    /* not 0: rotates by minus the angle */
  int32_t truncate;     /* YaRN: floor and ceil of the correction range; default 1 */
  double attention_factor; /* replaces the scaling's; may be absent */
  const uint8_t *axis;     /* the coordinate of a position by which each pair rotates; null: all 0 */
  const int32_t *index;    /* i in b^(-2i/r); null: 0, 1, 2, ... */
  const double *inv_freq;  /* learned frequencies, which replace the computed ones */
  const double *multiplier; /* multiplies the frequencies */
  double factor;            /* default 1 */
  int64_t trained_length;
  double mixed_b;   /* may be absent */
  double beta_fast; /* default 32 */
  double beta_slow; /* default 1 */
  double mscale;    /* may be absent */
  double mscale_all_dim; /* may be absent */
  double magnitude;      /* default 0.1 */
  double extrapolation_factor; /* default 1 */
  double attn_factor;          /* default 1 */
  int32_t mscale_ratio;        /* default 0 */
  int32_t reserved;
  const double *short_factor;
  const double *long_factor;
  double short_mscale; /* may be absent */
  double long_mscale;  /* may be absent */
  double low;          /* default 1 */
  double high;         /* default 4 */
  double fraction;     /* default 1 */
  /* Rows of frequencies, not the model's heads. Default 1: all heads rotate alike; above 1, inv_freq is required,
   * [head_rows, pairs], or [head_rows, summed_axes, pairs] with summed_axes above 0. */
  int32_t head_rows;
  int32_t summed_axes; /* above 0: an angle sums over that many coordinates */
  const double* phase; /* [head_rows, pairs], radians added to the angle */
  double xpos_scale;   /* above 0: the amplitude of xPos (XPos in rope.h) */
  double xpos_center;
  int32_t xpos_reciprocal; /* not 0: for keys */
  int32_t reserved_too;
} rotary_rope;
ROTARY_C_API void rotary_rope_init(rotary_rope *rope, size_t size);

/* ---- frequencies: radians per position of every pair ------------------------------------------------------------ */

typedef struct rotary_frequencies rotary_frequencies;
/* The sequence is at most as long as the model was trained for. */
enum { ROTARY_TRAINED_LENGTH = -1 };
/* length: of the sequence, the largest position + 1, or ROTARY_TRAINED_LENGTH. Only ROTARY_DYNAMIC and ROTARY_LONGROPE
 * use it; 0, "not known", is LENGTH for these. PAIRING, SCALING, SHAPE, LENGTH, VALUE, MEMORY. */
ROTARY_C_API rotary_status rotary_frequencies_make(const rotary_rope *rope, int64_t length,
                                                   rotary_frequencies **frequencies);
/* Null is allowed. */
ROTARY_C_API void rotary_frequencies_free(rotary_frequencies *frequencies);
ROTARY_C_API int32_t rotary_frequencies_pairs(const rotary_frequencies *frequencies);
ROTARY_C_API int32_t rotary_frequencies_axes(const rotary_frequencies *frequencies);
ROTARY_C_API double rotary_frequencies_attention_factor(const rotary_frequencies *frequencies);
/* [pairs], or the shape in the rope; valid until the free. */
ROTARY_C_API const double *rotary_frequencies_inv_freq(const rotary_frequencies *frequencies);

/* ---- positions -------------------------------------------------------------------------------------------------- */

enum { ROTARY_RUN = 300, ROTARY_INT32 = 301, ROTARY_INT64 = 302, ROTARY_DOUBLE = 303 };

/* One position for each token, row-major [axes, batch, tokens]; by default first, first + 1, ... A batch of 1 serves
 * tensors of any batch size; one axis serves ropes of several (text), and axes that no pair uses are not read. */
typedef struct rotary_positions {
  uint32_t size;
  int32_t type; /* the type of values; ROTARY_RUN, the default: a run from first on, and values is null */
  const void *values;
  int64_t first; /* the run's first position; 0 with values */
  int64_t tokens;
  int32_t batch; /* default 1 */
  int32_t axes;  /* default 1 */
} rotary_positions;
ROTARY_C_API void rotary_positions_init(rotary_positions *positions, size_t size);

/* ---- tables: a row of cos and sin for every token --------------------------------------------------------------- */

enum { ROTARY_EXACT = 400, ROTARY_FLOAT32 = 401 }; /* angles: correctly rounded; the float32 steps of most frameworks */
/* Element types; for a table, the type to which its values are rounded. */
enum { ROTARY_F32 = 500, ROTARY_F16 = 501, ROTARY_BF16 = 502 };

typedef struct rotary_table rotary_table;
/* A table without tokens, with memory for that many rows (batch * tokens) of these frequencies. SHAPE, PAIRING,
 * SCALING, MEMORY. */
ROTARY_C_API rotary_status rotary_table_make(const rotary_frequencies *frequencies, int64_t rows, rotary_table **table);
ROTARY_C_API void rotary_table_free(rotary_table *table);
/* Computes the rows of these positions. Allocates memory only if there are more rows than before; the frequencies of
 * the last call are not prepared again. On error the table is unchanged. POSITION, SHAPE, VALUE, SCALING, MEMORY. */
ROTARY_C_API rotary_status rotary_table_assign(rotary_table *table, const rotary_frequencies *frequencies,
                                               const rotary_positions *positions, int32_t angles, int32_t rounding);
/* Computes the table that re-rotates keys: from keys that `from` rotated at from_positions to keys as `to` rotates them
 * at to_positions (table.h). Allocates memory only where this table has not made as many rows of such ropes before. On
 * error the table is unchanged. As rotary_table_assign, and PAIRING. */
ROTARY_C_API rotary_status rotary_table_between(rotary_table *table, const rotary_frequencies *from,
                                                const rotary_positions *from_positions, const rotary_frequencies *to,
                                                const rotary_positions *to_positions, int32_t rounding);
/* Makes the table a view of the caller's rows, f32 [batch, tokens, pairs], which must stay valid while the table is
 * used. Frees the table's own memory. SHAPE, PAIRING. */
ROTARY_C_API rotary_status rotary_table_borrow(rotary_table *table, const float *cos, const float *sin, int64_t tokens,
                                               int32_t pairs, int32_t pairing, int32_t batch);

/* An engine's or a table's rows of cos and sin, of any type and stride: row n begins at cos + n * stride and
 * sin + n * stride, in elements. vLLM's cos_sin_cache [rows, 2 * pairs] has sin = cos + pairs, stride = 2 * pairs. */
typedef struct rotary_rows {
  uint32_t size;
  int32_t dtype; /* default ROTARY_F32 */
  const void* cos;
  const void* sin;
  int64_t stride; /* at least head_rows * pairs; not read if there is one row */
  int64_t rows;
  int32_t pairs;
  int32_t pairing;
  int32_t head_rows; /* default 1; else a row is [head_rows, pairs] */
  int32_t xpos;      /* not 0: the rows have xPos's amplitude, so they are for queries or for keys */
} rotary_rows;
ROTARY_C_API void rotary_rows_init(rotary_rows *rows, size_t size);
/* Sets rows to those of one table of all positions: row b * tokens + t is that of token t in batch row b. A view, valid
 * until the table is assigned, borrows or is freed. VALUE. */
ROTARY_C_API rotary_status rotary_table_rows(const rotary_table* table, rotary_rows* rows);
/* Row i of the table becomes a copy of row numbers[i], as f32. Numbers are integers from 0 to rows - 1, for each token
 * of [batch, tokens]. Allocates memory only if there are more rows than before. On error the table is unchanged.
 * POSITION, SHAPE, DTYPE, PAIRING, MEMORY. */
ROTARY_C_API rotary_status rotary_table_assign_rows(rotary_table* table, const rotary_rows* rows,
                                                    const rotary_positions* numbers);
/* Writes the rows of these positions, [batch, tokens], as rows 0, 1, ... without a table: row n, [head_rows, pairs],
 * begins at cos + n * stride and sin + n * stride, in elements. Each value is rounded once to dtype. Allocates memory
 * for the rows. SHAPE, DTYPE, ALIAS (cos and sin overlap), POSITION, SCALING, VALUE, MEMORY. */
ROTARY_C_API rotary_status rotary_rows_write(const rotary_frequencies* frequencies, const rotary_positions* positions,
                                             void* cos, void* sin, int32_t dtype, int64_t stride, int32_t angles);
/* f32 [batch, tokens, head_rows, pairs], valid until the table is assigned, borrows or is freed. */
ROTARY_C_API const float *rotary_table_cos(const rotary_table *table);
ROTARY_C_API const float *rotary_table_sin(const rotary_table *table);
ROTARY_C_API int64_t rotary_table_tokens(const rotary_table *table);
ROTARY_C_API int32_t rotary_table_pairs(const rotary_table *table);
ROTARY_C_API int32_t rotary_table_batch(const rotary_table *table);
/* 1: all heads rotate alike; else the number of heads of q or of k (table.h). */
ROTARY_C_API int32_t rotary_table_head_rows(const rotary_table* table);

/* ---- rotation --------------------------------------------------------------------------------------------------- */

/* A view of q or k: element (b, t, h, d) lies at b * batch_stride + t * token_stride + h * head_stride + d. Strides are
 * in elements and not negative. Elements [first, first + 2 * pairs) of each head rotate; the others keep their bits
 * (out of place, they are copied). */
typedef struct rotary_heads {
  uint32_t size;
  int32_t dtype; /* default ROTARY_F32 */
  void *data;
  int64_t batch;  /* default 1 */
  int64_t tokens; /* default 1 */
  int64_t heads;  /* default 1 */
  int32_t head_dim;
  int32_t first; /* default 0 */
  int64_t batch_stride;
  int64_t token_stride;
  int64_t head_stride;
} rotary_heads;
ROTARY_C_API void rotary_heads_init(rotary_heads *heads, size_t size);
/* Sets the strides of a contiguous tensor in this order, outermost first: "bthd", "bhtd" or "tbhd". VALUE. */
ROTARY_C_API rotary_status rotary_heads_order(rotary_heads *heads, const char *order);

/* Threads that share the work of a call. */
typedef struct rotary_pool rotary_pool;
/* threads: including the caller's; 0: all cores. MEMORY. */
ROTARY_C_API rotary_status rotary_pool_make(uint32_t threads, rotary_pool **pool);
ROTARY_C_API void rotary_pool_free(rotary_pool *pool);

enum { ROTARY_FORWARD = 600, ROTARY_BACKWARD = 601 };                         /* backward: the transposed map */
enum { ROTARY_AUTOMATIC = 700, ROTARY_CACHED = 701, ROTARY_STREAMING = 702 }; /* how an out-of-place call writes */

/* Null in place of options: all defaults. */
typedef struct rotary_options {
  uint32_t size;
  int32_t direction; /* default ROTARY_FORWARD */
  int32_t stores;    /* default ROTARY_AUTOMATIC */
  int32_t reserved;
  const rotary_pool *pool; /* null, the default: the caller's thread. Not with parts. */
  /* The call does part `part` of `parts` of the work, for pools whose threads all call the function. Call every part
   * once, from any threads, at the same time or one after the other: together they do what one call does. Default: part
   * 0 of 1. */
  int32_t part;
  int32_t parts;
  /* For rotary_rotate_qk only, not with parts: a factor for each token of q, [tokens] or [batch, tokens], which also
   * multiplies every element of its heads (query_scale.h). query_scales is their number. The call allocates the rows
   * times the factors. Null, the default: no factors. */
  const float *query_scale;
  int64_t query_scales;
} rotary_options;
ROTARY_C_API void rotary_options_init(rotary_options *options, size_t size);

/* Rotates x in place if out is null or x, else into out. SHAPE, DTYPE, ALIAS, PAIRING, VALUE. */
ROTARY_C_API rotary_status rotary_rotate(const rotary_heads *x, const rotary_heads *out, const rotary_table *table,
                                         const rotary_options *options);
/* Rotates q and k in one call. They may differ in heads, head_dim, strides and dtype, not in first. They may be parts
 * of one packed tensor, its heads of q, of k and of v, as views of its memory with its strides: one pass rotates both
 * and leaves v alone. */
ROTARY_C_API rotary_status rotary_rotate_qk(const rotary_heads *q, const rotary_heads *q_out, const rotary_heads *k,
                                            const rotary_heads *k_out, const rotary_table *table,
                                            const rotary_options *options);
/* As rotary_rotate_qk, by rows that are found by number, as in rotary_table_assign_rows. With k and k_out null it
 * rotates q alone. f32 rows are read where they lie; f16 and bf16 rows, and those with rows for each head, are first
 * copied into memory that the call allocates. SHAPE, DTYPE, ALIAS, PAIRING, POSITION, SCALING, VALUE, MEMORY. */
ROTARY_C_API rotary_status rotary_rotate_qk_rows(const rotary_heads* q, const rotary_heads* q_out,
                                                 const rotary_heads* k, const rotary_heads* k_out,
                                                 const rotary_rows* rows, const rotary_positions* numbers,
                                                 const rotary_options* options);

/* ---- rotation into a KV cache ----------------------------------------------------------------------------------- */

/* The type of the cache's elements. */
enum {
  ROTARY_CACHE_SAME = 800,    /* k's for keys, v's for values */
  ROTARY_CACHE_F8_E4M3 = 801, /* x / scale, to nearest even and clamped to +-448 */
  ROTARY_CACHE_F32 = 802,
  ROTARY_CACHE_F16 = 803,
  ROTARY_CACHE_BF16 = 804
};

/* Element (page, token in the page, head, d) of k and of v lies at page * page_stride + token * token_stride +
 * head * head_stride + d. A contiguous cache has one page for each batch row. */
typedef struct rotary_cache {
  uint32_t size;
  int32_t type; /* default ROTARY_CACHE_SAME: k's and v's own types */
  void *k;
  void *v;
  int64_t pages;
  int64_t heads;
  int32_t page_size; /* tokens */
  int32_t head_dim;
  int64_t page_stride;
  int64_t token_stride;
  int64_t head_stride;
  /* Where the tokens go. slots, or slots_int32: for each token, [batch, tokens], page * page_size + place in the page.
   * By page tables (flashinfer's): indices[indptr[batch_indices[i]] + token_positions[i] / page_size] is the page of
   * token i. Without these, token t of batch row b goes to place first + t of page b, or firsts[b] + t with firsts.
   * Numbers below 0 are padding; a slot, sequence or page that does not exist is SHAPE, or padding with skip_missing
   * (not where first or firsts say the places). */
  const int64_t *slots;
  const int64_t *firsts;
  int64_t first;
  float k_scale; /* default 1; with ROTARY_CACHE_F8_E4M3 keys are divided by it */
  float v_scale; /* default 1; the same for values */
  const int32_t* slots_int32;
  const int32_t* indptr;          /* [sequences + 1] */
  const int32_t* indices;         /* [indptr[sequences]] */
  const int32_t* batch_indices;   /* per token */
  const int32_t* token_positions; /* per token */
  int32_t sequences;
  int32_t skip_missing;
  int32_t k_offset;   /* keys begin that many elements later; default 0 */
  int32_t v_head_dim; /* 0, the default: v has the head_dim and the strides of k; else those of v follow */
  int64_t v_page_stride;
  int64_t v_token_stride;
  int64_t v_head_stride;
} rotary_cache;
ROTARY_C_API void rotary_cache_init(rotary_cache *cache, size_t size);
/* Sets k, v, the sizes and the strides for a latent cache (MLA): rows [pages, page_size, latent_dim + rope_dim], in
 * each the latent, which is v, before the rotated key, k. SHAPE. */
ROTARY_C_API rotary_status rotary_latent_rows(rotary_cache* cache, void* rows, int64_t pages, int32_t page_size,
                                              int32_t latent_dim, int32_t rope_dim);

/* Rotates q in place or into q_out, rotates k into its places in the cache, and copies v, which may be null, to its
 * own. If q's first is not 0, k must be the rotated elements alone. SHAPE, DTYPE, ALIAS, PAIRING, VALUE. */
ROTARY_C_API rotary_status rotary_rotate_append(const rotary_heads *q, const rotary_heads *q_out, const rotary_heads *k,
                                                const rotary_heads *v, const rotary_table *table,
                                                const rotary_cache *cache, const rotary_options *options);

/* ---- shift: tokens leave a cache, the others move up ------------------------------------------------------------ */

/* The sequences in a cache: token t of sequence s lies in its page t / page_size, at t % page_size. Without indptr,
 * sequence s is page s; with page tables its pages are indices[indptr[s]] to indices[indptr[s + 1] - 1]. */
typedef struct rotary_sequences {
  uint32_t size;
  int32_t sequences;      /* with page tables */
  const int32_t* indptr;  /* [sequences + 1] */
  const int32_t* indices; /* [indptr[sequences]] */
  const int32_t* lengths; /* tokens of each sequence; null only without page tables: every page is a full sequence */
  int32_t skip_missing;   /* not 0: tokens of a page that does not exist do not move; else such a page is SHAPE */
  int32_t reserved;
} rotary_sequences;
ROTARY_C_API void rotary_sequences_init(rotary_sequences* sequences, size_t size);

/* In every sequence the first `keep` tokens stay, the next `drop` leave, and the tokens after them move `drop` slots
 * down: k is rotated by the table of one token, which rotary_table_between made from position `drop` to 0, and v is
 * copied. Each batch row of k and v is a page. v is null if the cache has none, sequences if all pages are full.
 * The last `drop` slots of each sequence are stale then; lower your lengths by `drop`. SHAPE, DTYPE, ALIAS, PAIRING,
 * VALUE. */
ROTARY_C_API rotary_status rotary_shift(const rotary_heads* k, const rotary_heads* v, const rotary_table* table,
                                        int64_t keep, int64_t drop, const rotary_sequences* sequences,
                                        const rotary_options* options);
/* The same for both sides of a cache, of its type or, if that is ROTARY_CACHE_SAME, of dtype; its slots are not read.
 * ROTARY_CACHE_F8_E4M3 is DTYPE. */
ROTARY_C_API rotary_status rotary_shift_cache(const rotary_cache* cache, int32_t dtype, const rotary_table* table,
                                              int64_t keep, int64_t drop, const rotary_sequences* sequences,
                                              const rotary_options* options);

#ifdef __cplusplus
}
#endif

#endif
