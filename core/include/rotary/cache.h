// Rotation into a KV cache: one pass rotates k straight into its slots and copies v to its own.
//
//   rotate_append(q, k, v, table, nhd(k_cache, v_cache, pages, page_size, kv_heads, head_dim), Slots::flat(slots));
//
// And the shift of a cache whose window slides. gpu.h uses the same templates for the device's memory; a call with a
// cache in the wrong memory does not compile.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>

#include "rotary/rotary.h"

namespace rotary {

// Tags: the memory to which the pointers of a cache and of slots point. Never defined.
struct Host;
namespace gpu {
struct Device;
}

// ---- Cache: keys and values in pages ---------------------------------------------------------------

// The type of a cache's elements. On a device: same or f8_e4m3.
enum class CacheType : std::uint8_t {
  same,     // the heads' type: k's for keys, v's for values
  f8_e4m3,  // x / scale in f32, rounded to nearest even and clamped to +-448; NaN stays NaN
  f32,      // f32, f16, bf16: rounded to nearest even
  f16,
  bf16,
};
ROTARY_API const char* name(CacheType) noexcept;               // "same", "f8_e4m3", "f32", "f16", "bf16"
ROTARY_API CacheType parse_cache_type(std::string_view name);  // throws DTYPE

// The keys and the values of a KV cache, in the caller's memory. In both, element (page, token in the page, head, d)
// lies at page * page_stride + token * token_stride + head * head_stride + d; keys begin k_offset elements later. A
// contiguous cache [batch, max_tokens, ...] has `batch` pages of max_tokens tokens.
template <class Memory>
struct CacheIn {
  void* k = nullptr;
  void* v = nullptr;
  CacheType type = CacheType::same;
  std::int64_t pages = 0;
  int page_size = 0;  // tokens
  std::int64_t heads = 0;
  int head_dim = 0;
  std::int64_t page_stride = 0;  // strides in elements
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  float k_scale = 1;  // the divisor of f8_e4m3
  float v_scale = 1;
  const float* scales = nullptr;  // {k_scale, v_scale} in memory; if not null, replaces the two above
  int k_offset = 0;
  // 0: v has the head_dim and the strides of k. Above 0: the head_dim of v, which has strides of its own.
  int v_head_dim = 0;
  std::int64_t v_page_stride = 0;
  std::int64_t v_token_stride = 0;
  std::int64_t v_head_stride = 0;
};
using Cache = CacheIn<Host>;
// k and v each [pages, page_size, heads, head_dim] (vLLM; flashinfer's NHD) or [pages, heads, page_size, head_dim]
// (its HND), contiguous; v_head_dim 0: v has head_dim elements too. Throw SHAPE.
ROTARY_API Cache nhd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim,
                     CacheType = CacheType::same, int v_head_dim = 0);
ROTARY_API Cache hnd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim,
                     CacheType = CacheType::same, int v_head_dim = 0);
// The latent cache of multi-head latent attention: rows [pages, page_size, latent_dim + rope_dim] of one head. In each
// row the latent, which is v, lies before the rotated key, k. DeepSeek-V3: 512 and 64, the kv_lora_rank and the
// qk_rope_head_dim of its config. Throws SHAPE.
//
//   rotate_append(q, k_rope, latent, table, latent_rows(rows, pages, page_size, 512, 64), slots, {.first = 128});
ROTARY_API Cache latent_rows(void* rows, std::int64_t pages, int page_size, int latent_dim, int rope_dim,
                             CacheType = CacheType::same);

// ---- Slots: where the tokens of a call go ----------------------------------------------------------

// The page of token i (batch row * tokens + token) and its place there. A slot, batch index or position below 0 is
// padding: the token's k and v are not written. A page of the table below 0 does not exist. A slot, sequence or page
// that does not exist is SHAPE, or padding too with skip_missing (not for rows and each_row); on a device it is always
// padding. No two tokens of a call may have the same slot: it would hold a mixture of both.
template <class Memory>
struct SlotsIn {
  static constexpr std::int64_t no_first = std::numeric_limits<std::int64_t>::min();
  // vLLM: slot_mapping[i] = page * page_size + token in the page; -1: padding.
  static SlotsIn flat(const std::int64_t* slot_mapping) noexcept { return {.slot = slot_mapping}; }
  static SlotsIn flat(const std::int32_t* slot_mapping) noexcept requires(std::same_as<Memory, Host>) {
    return {.slot_int32 = slot_mapping};
  }
  // flashinfer: page = indices[indptr[batch_indices[i]] + positions[i] / page_size]; a batch index below 0: padding.
  static SlotsIn paged(const std::int32_t* indptr, const std::int32_t* indices, const std::int32_t* batch_indices,
                       const std::int32_t* positions, int sequences) noexcept {
    return {.indptr = indptr,
            .indices = indices,
            .batch_indices = batch_indices,
            .positions = positions,
            .sequences = sequences};
  }
  // Contiguous caches of the host: token t of batch row b goes to place first + t of page b. first is the number of
  // tokens that the row's cache already holds, the same for all rows or one for each; below 0: padding. A token
  // beyond the end of its page is an error (SHAPE), it is not skipped.
  static SlotsIn rows(std::int64_t first) noexcept requires(std::same_as<Memory, Host>) {
    return {.first = first, .by_row = true};
  }
  static SlotsIn each_row(const std::int64_t* first) noexcept requires(std::same_as<Memory, Host>) {
    return {.firsts = first, .first = no_first, .by_row = true};
  }

  const std::int64_t* slot = nullptr;
  const std::int32_t* indptr = nullptr;         // [sequences + 1]
  const std::int32_t* indices = nullptr;        // [indptr[sequences]]
  const std::int32_t* batch_indices = nullptr;  // per token
  const std::int32_t* positions = nullptr;      // per token
  int sequences = 0;
  const std::int64_t* firsts = nullptr;  // per batch row
  std::int64_t first = 0;                // for all batch rows; no_first with each_row: null firsts are an error then
  bool by_row = false;                   // places follow from firsts or, if it is null, from first
  const std::int32_t* slot_int32 = nullptr;  // instead of slot, on the host
  bool skip_missing = false;
};
using Slots = SlotsIn<Host>;

// ---- operations ------------------------------------------------------------------------------------

// An output (q or q_out, the cache's k and v) must not overlap any other argument: ALIAS. All pages of the cache count
// as output, although only the tokens' slots are written. Slots::indices is not checked for overlap.

// Copies k and v to their slots in the cache's type; elements whose type stays keep their bits. v has k's shape, but
// the cache's v_head_dim if that is above 0; or no elements, and nothing is copied to the cache's v. Of the options,
// first and direction must have their defaults. Throws SHAPE, DTYPE, ALIAS, VALUE (k_scale, v_scale, options).
ROTARY_API void append(const ConstHeads& k, const ConstHeads& v, const Cache&, const Slots&, const RotateOptions& = {});

// Rotates q in place, or into q_out (which may be q), rotates k into its slots, and copies v to its slots. The result
// equals rotate, then append, bit for bit: k is rounded to its own type, then to the cache's; f32 heads are rounded
// once. q and k may differ in heads, head_dim, strides and dtype; k and v in strides and dtype. `first` applies to q;
// if it is not 0, k must be the rotated elements alone. With latent rows, q's block must end its heads. A call that is
// refused has written nothing.
// Throws SHAPE (also a head_dim above 4096 where the cache's type is not k's), DTYPE, ALIAS, PAIRING, VALUE (k_scale,
// v_scale, an unknown direction).
ROTARY_API void rotate_append(const Heads& q, const ConstHeads& k, const ConstHeads& v, const Table&, const Cache&,
                              const Slots&, const RotateOptions& = {});
ROTARY_API void rotate_append(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const ConstHeads& v,
                              const Table&, const Cache&, const Slots&, const RotateOptions& = {});

// ---- shift: tokens leave a cache, the others move up -----------------------------------------------

// The sequences in a cache: token t of sequence s lies in its page t / page_size, at t % page_size. Sequences that move
// must not share a page, which is not checked. A page that does not exist is SHAPE; with skip_missing, and on a device,
// a token whose old or new page does not exist stays. Sequences{}: every page is a sequence of page_size tokens.
template <class Memory>
struct SequencesIn {
  // Contiguous caches: sequence s is page s, with lengths[s] tokens.
  static SequencesIn each_row(const std::int32_t* lengths) noexcept { return {.lengths = lengths, .by_row = true}; }
  // flashinfer: sequence s has the pages indices[indptr[s]] to indices[indptr[s + 1] - 1]. For vLLM's block table,
  // [sequences, blocks], indptr[s] is s * blocks.
  static SequencesIn paged(const std::int32_t* indptr, const std::int32_t* indices, const std::int32_t* lengths,
                           int sequences) noexcept {
    return {.indptr = indptr, .indices = indices, .lengths = lengths, .sequences = sequences};
  }

  const std::int32_t* indptr = nullptr;   // [sequences + 1]; null: each_row
  const std::int32_t* indices = nullptr;  // [indptr[sequences]]
  const std::int32_t* lengths = nullptr;  // tokens of each sequence
  int sequences = 0;
  bool skip_missing = false;
  bool by_row = false;  // each_row: null lengths are an error
};
using Sequences = SequencesIn<Host>;

// In every sequence the first `keep` tokens stay (attention sinks), the next `drop` tokens leave, and the tokens after
// them move `drop` slots down: k is rotated by the table of one token, v is copied. It is one pass in place, with the
// bits of an out-of-place rotate. The last `drop` slots of each sequence are stale then; lower your lengths by `drop`,
// which shift does not write.
//
//   shift(k, v, between(f, drop, f, 0), keep, drop);
//
// With a cache, k and v are its two sides, of its type or, if that is same, of dtype; not for f8_e4m3 (DTYPE).
// To change positions and no slots, call rotate(k, between(...)). k and v are [pages, page_size, heads, head_dim] with
// any strides (bthd, bhtd); a contiguous cache has one page per batch row. v may differ in heads, head_dim, strides and
// dtype, or have no elements; where k has none, v must have none.
// Throws what rotate in place throws, and SHAPE (v's pages or tokens, a table of more than one row, a keep or drop
// below 0, a length that its pages do not hold, a page that does not exist), ALIAS (k, v, the table and the sequences
// overlap; `indices` is not checked).
ROTARY_API void shift(const Heads& k, const Heads& v, const Table&, std::int64_t keep, std::int64_t drop,
                      const RotateOptions& = {});
ROTARY_API void shift(const Heads& k, const Heads& v, const Table&, std::int64_t keep, std::int64_t drop,
                      const Sequences&, const RotateOptions& = {});
ROTARY_API void shift(const Cache&, DType dtype, const Table&, std::int64_t keep, std::int64_t drop,
                      const Sequences& = {}, const RotateOptions& = {});

}  // namespace rotary
