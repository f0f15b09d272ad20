// The chain on a CUDA stream: the same words, the same checks, the same bits.
//
//   rotary::Frequencies --gpu::Frequencies--> device --gpu::Table(positions)--> Table --gpu::rotate(Heads)--> device
//
// Heads, caches, weights, slots and the positions named here lie in the device's memory. Everything is enqueued on the
// stream and returns at once; what a call reads must stay until the stream has passed it. The verbs allocate nothing,
// wait for nothing and ask the device nothing, so a CUDA graph can capture them. Of what lies in the device's memory
// only addresses can be checked here. All of it, and the streams, belong to the current device (cudaSetDevice).
// Throws what the verbs of rotary.h throw, and CUDA: a call of the runtime failed, or there is no device. Where rotary
// was built without CUDA (scripts/build.sh --with cuda) everything throws CUDA but built(), devices(), Positions,
// Table() and moves of it, Rotation by a table, nhd, hnd and Slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "rotary/rotary.h"

struct CUstream_st;

namespace rotary::gpu {

using Stream = CUstream_st*;  // cudaStream_t; null: the default stream

bool built() noexcept;      // with CUDA
int devices() noexcept;     // how many there are; 0 without a driver
std::string device_name();  // of the current device: "NVIDIA H100 80GB HBM3, compute capability 9.0"
void synchronize(Stream = nullptr);

// ---- positions and frequencies on the device -----------------------------------------------------

// Positions in the device's memory, row-major [axes, batch, tokens], as in rotary::Positions. Read when the stream
// comes to them: a graph that is replayed sees what lies there then. What rotary::Table refuses (a position that is not
// finite, with Angles::float32 an angle that overflows) makes NaN of the pairs that it drives. Throws SHAPE, DTYPE
// (misaligned).
struct Positions {
  Positions(const std::int64_t* p, std::int64_t tokens, int axes = 1, int batch = 1);
  Positions(const std::int32_t* p, std::int64_t tokens, int axes = 1, int batch = 1);
  Positions(const double* p, std::int64_t tokens, int axes = 1, int batch = 1);
  const std::int64_t* i64 = nullptr;
  const std::int32_t* i32 = nullptr;
  const double* f64 = nullptr;
  int axes = 1;
  int batch = 1;
  std::int64_t tokens = 0;
};

struct FrequencyArrays;  // src/gpu/kernels/kernels.h

// A model's frequencies as the device's kernels read them: made once, for every stream (waits for the copy). One that
// has moved away has no pairs, and is refused (SHAPE). Throws SHAPE, SCALING, PAIRING.
class Frequencies {
 public:
  Frequencies(const rotary::Frequencies&, Pairing, Stream = nullptr);
  Frequencies(Frequencies&&) noexcept;
  Frequencies& operator=(Frequencies&&) noexcept;
  ~Frequencies();

  Pairing pairing() const noexcept { return pairing_; }
  int pairs() const noexcept { return pairs_; }
  int rotary_dim() const noexcept { return 2 * pairs_; }
  int axes() const noexcept { return axes_; }
  double attention_factor() const noexcept { return host_.attention_factor; }
  const rotary::Frequencies& host() const noexcept { return host_; }  // what they were made from
  // Per pair, in the device's memory: what phase() of rotary/device.cuh takes.
  const std::uint64_t* turns() const noexcept;
  const FrequencyArrays& arrays() const noexcept;

 private:
  void swap(Frequencies&) noexcept;
  std::unique_ptr<FrequencyArrays> arrays_;
  rotary::Frequencies host_;
  void* memory_ = nullptr;
  Pairing pairing_ = {};
  int pairs_ = 0;
  int axes_ = 1;
};

// ---- Table: one row of (cos, sin) per token ------------------------------------------------------

struct TableOptions {
  Angles angles = Angles::exact;
  DType rounding = DType::f32;
};

// The rows of rotary::Table, bit for bit, in the device's memory: f32 [batch, tokens, pairs]. Throws SHAPE, DTYPE,
// SCALING, POSITION (the host's), ALIAS.
class Table {
 public:
  Table() = default;  // of no tokens
  Table(const Frequencies&, const Positions&, const TableOptions& = {}, Stream = nullptr);
  Table(const Frequencies&, const rotary::Positions& host, const TableOptions& = {}, Stream = nullptr);
  // From cos and sin in the host's memory, copied.
  Table(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing, int batch = 1, Stream = nullptr);
  // A view of the caller's cos and sin in the device's memory.
  static Table borrow(const float* cos, const float* sin, int pairs, Pairing, std::int64_t tokens, int batch = 1);
  Table(Table&&) noexcept;             // leaves Table()
  Table& operator=(Table&&) noexcept;  // leaves Table(); frees what it held, as ~Table
  ~Table();                            // waits for the device

  // As constructing anew. Allocates only where the table has never been as large, and then waits for the device and
  // frees the rows it had; from positions in the device's memory a graph can capture it otherwise (from the host's:
  // throws CUDA). Of a borrowed table: throws ALIAS.
  // Whoever keeps the address of the rows must not let the table grow: graphs that captured its assign or a verb that
  // turns by it would write and read freed memory. reserve() the most before, or use one table for decode and one for
  // prefill.
  void assign(const Frequencies&, const Positions&, const TableOptions& = {}, Stream = nullptr);
  void assign(const Frequencies&, const rotary::Positions& host, const TableOptions& = {}, Stream = nullptr);
  void reserve(std::int64_t rows, int pairs);  // rows: batch * tokens. Keeps the rows; grows as assign does

  Pairing pairing() const noexcept { return pairing_; }
  int pairs() const noexcept { return pairs_; }
  int rotary_dim() const noexcept { return 2 * pairs_; }
  int batch() const noexcept { return batch_; }
  std::int64_t tokens() const noexcept { return tokens_; }
  const float* cos() const noexcept { return cos_; }  // in the device's memory
  const float* sin() const noexcept { return sin_; }
  rotary::Table host(Stream = nullptr) const;  // a copy, of Table() one of no tokens and one pair; waits for the stream

 private:
  void swap(Table&) noexcept;
  void set_shape(Pairing, int pairs, int batch, std::int64_t tokens);
  float* memory_ = nullptr;              // cos, then sin
  std::int64_t capacity_ = 0;            // values of each
  void* positions_ = nullptr;            // of the host's, on their way
  std::int64_t positions_capacity_ = 0;  // bytes
  const float* cos_ = nullptr;
  const float* sin_ = nullptr;
  bool borrowed_ = false;
  Pairing pairing_ = {};
  int pairs_ = 0;
  int batch_ = 1;
  std::int64_t tokens_ = 0;
};

// By how much each pair of each token turns: by a table's rows; or without a table, each angle computed where it is
// needed from integer positions, cos and sin within 1.1e-7 at any int32 position (an attention factor, rounded to f32
// and multiplied in f32, makes that 2e-7 times the factor). The table, or frequencies and positions, must outlive it.
struct Rotation {
  Rotation(const Table& rows) : table(&rows) {}    // NOLINT: either is one
  Rotation(const Frequencies&, const Positions&);  // throws POSITION: fractional ones; SHAPE: axes, no pairs, changed
  Pairing pairing() const noexcept { return table ? table->pairing() : frequencies->pairing(); }
  int pairs() const noexcept { return table ? table->pairs() : frequencies->pairs(); }
  int batch() const noexcept { return table ? table->batch() : positions->batch; }
  std::int64_t tokens() const noexcept { return table ? table->tokens() : positions->tokens; }
  const Table* table = nullptr;
  const Frequencies* frequencies = nullptr;
  std::optional<Positions> positions;
};

// ---- rotate --------------------------------------------------------------------------------------

// As in rotary.h, with its rules and its bits. q and k are one launch where they have one dtype.
// Of interleaved_to_half in place a rotary_dim above 2048 is refused (SHAPE). What is written must be apart from the
// table's rows, or the positions (ALIAS).
void rotate(const Heads& x, const Rotation&, Stream = nullptr);
void rotate(const ConstHeads& x, const Heads& out, const Rotation&, Stream = nullptr);
void rotate_qk(const Heads& q, const Heads& k, const Rotation&, Stream = nullptr);
void rotate_qk(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const Heads& k_out, const Rotation&,
               Stream = nullptr);
void rotate_backward(const Heads& x, const Rotation&, Stream = nullptr);
void rotate_backward(const ConstHeads& x, const Heads& out, const Rotation&, Stream = nullptr);
void rotate_qk_backward(const Heads& q, const Heads& k, const Rotation&, Stream = nullptr);
void rotate_qk_backward(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const Heads& k_out,
                        const Rotation&, Stream = nullptr);

// ---- what saves a pass over memory: norm, rotation and cache write in one launch -----------------

enum class CacheType : std::uint8_t {
  same,     // the heads' dtype
  f8_e4m3,  // x / scale, to nearest even, beyond +-448 that; NaN stays NaN
};

// A paged cache of keys and one of values: element (page, token in the page, head, d) of either lies at
// page * page_stride + token * token_stride + head * head_stride + d.
struct Cache {
  void* k = nullptr;
  void* v = nullptr;
  CacheType type = CacheType::same;
  std::int64_t pages = 0;
  int page_size = 0;  // tokens
  std::int64_t heads = 0;
  int head_dim = 0;
  std::int64_t page_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  float k_scale = 1;  // f8_e4m3
  float v_scale = 1;
  const float* scales = nullptr;  // in the device's memory: k's and v's, in place of the two above
};
// k and v each [pages, page_size, heads, head_dim] (vLLM; flashinfer's NHD) or [pages, heads, page_size, head_dim]
// (its HND), contiguous.
Cache nhd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim);
Cache hnd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim);

// Where token i (batch row * tokens + token) goes, in the device's memory. A token whose page or slot does not exist is
// skipped: its k and v may be read but go nowhere.
struct Slots {
  // vLLM: slot_mapping[i] = page * page_size + token in the page; -1: padding.
  static Slots flat(const std::int64_t* slot_mapping);
  // flashinfer: page = indices[indptr[batch_indices[i]] + positions[i] / page_size]; a batch index below 0: padding.
  static Slots paged(const std::int32_t* indptr, const std::int32_t* indices, const std::int32_t* batch_indices,
                     const std::int32_t* positions, int sequences);
  const std::int64_t* slot = nullptr;
  const std::int32_t* indptr = nullptr;         // [sequences + 1]
  const std::int32_t* indices = nullptr;        // [indptr[sequences]]
  const std::int32_t* batch_indices = nullptr;  // per token
  const std::int32_t* positions = nullptr;      // per token
  int sequences = 0;
};

// x / sqrt(mean of x^2 + eps) * weight, the mean over a head, or over all heads of a token (OLMo 2).
struct Norm {
  const void* weight = nullptr;  // head_dim elements, across heads heads * head_dim; null: none
  DType dtype = DType::f32;      // of the weight
  float eps = 1e-6f;
  bool one_plus = false;  // multiplies by 1 + weight (Gemma)
  bool round_before =
      true;  // rounded to x's dtype before the weight too (Llama, Qwen3); false: once, behind it (Gemma)
  bool across_heads = false;
};

// What these write must be apart from everything else that they read: ALIAS, but for Slots::indices, whose length is
// not known here.

// out may be x. The sum of squares is f32, in an order that depends on dtype and shape only.
// Throws SHAPE, DTYPE, ALIAS, VALUE (eps).
void rms_norm(const ConstHeads& x, const Heads& out, const Norm&, Stream = nullptr);
// k and v to their slots. Throws SHAPE, DTYPE, ALIAS, VALUE (k_scale, v_scale).
void append(const ConstHeads& k, const ConstHeads& v, const Cache&, const Slots&, Stream = nullptr);
// q turns to q_out (which may be q), k turns to its slots, v goes to its slots. Equal to rotate, then append; throws
// what they throw: SHAPE, DTYPE, ALIAS, PAIRING, VALUE (k_scale, v_scale).
void rotate_append(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const ConstHeads& v, const Rotation&,
                   const Cache&, const Slots&, Stream = nullptr);
// qkv as in rotate_qkv; q is normed and turns to q_out (which may be q's part of qkv), k is normed and turns to its
// slots, v goes to its slots. Equal to rms_norm, rotate, then append. interleaved_to_half turns q apart from qkv only
// (ALIAS). Throws SHAPE, DTYPE, ALIAS, PAIRING, VALUE (eps, k_scale, v_scale).
void norm_rotate_append(const ConstHeads& qkv, std::int64_t kv_heads, const Heads& q_out, const Norm& q_norm,
                        const Norm& k_norm, const Rotation&, const Cache&, const Slots&, Stream = nullptr);

}  // namespace rotary::gpu
