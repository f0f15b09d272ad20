// Experimental: tested on an emulator and on one kind of GPU (docs/gpu.md). Any version may change it.
//
// The chain of rotary.h on a CUDA stream: the same names, the same checks, the same bits.
//
//   rotary::Frequencies --gpu::Frequencies--> device --gpu::Table(positions)--> Table --gpu::rotate(Heads)--> device
//
// Heads, caches, norm weights, slots and gpu::Positions point to the device's memory. All of it, and the streams,
// belong to the current device (cudaSetDevice).
//
// Functions that take a stream enqueue their work and return. The memory that a call reads must stay valid until the
// stream has executed the call. rotate, rotate_qk, rms_norm, append and the fused operations allocate nothing, do not
// wait and do not query the device, so a CUDA graph can capture them.
//
// Checks do not read the device's memory: they only validate pointers (null, alignment, overlap).
//
// Errors are those of rotary.h, and CUDA: a call of the runtime failed, or there is no device. In a build without CUDA
// (-DROTARY_CUDA=ON adds it) all functions throw CUDA, except:
//   built(), devices()
//   the constructors of Positions and TableOptions, Table(), moves, and Rotation of a Table
//   nhd(), hnd(), latent_rows(), Slots::flat() and Slots::paged()
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "rotary/cache.h"
#include "rotary/experimental.h"
#include "rotary/rotary.h"

struct CUstream_st;

namespace rotary::detail {
struct DeviceAccess;
}

namespace rotary::gpu {

using Stream = CUstream_st*;  // cudaStream_t; null: the default stream

ROTARY_EXPERIMENTAL bool built() noexcept;      // whether with CUDA
ROTARY_EXPERIMENTAL int devices() noexcept;     // number of devices; 0 without a driver
ROTARY_EXPERIMENTAL std::string device_name();  // the current device: "NVIDIA H100 80GB HBM3, compute capability 9.0"
ROTARY_EXPERIMENTAL void synchronize(Stream = nullptr);

// ---- positions and frequencies on the device -----------------------------------------------------

// A view of positions in the device's memory: int64, int32 or double, row-major [axes, batch, tokens], as in
// rotary::Positions. They are read when the stream executes the call, so a replayed graph uses the values of that
// time. Where rotary::Table throws (a position that is not finite; with Angles::float32 an angle that overflows), the
// pairs that read the position get NaN. The constructor throws SHAPE, DTYPE (misaligned).
class ROTARY_EXPERIMENTAL Positions {
 public:
  template <rotary::detail::PositionValue T>
  Positions(const T* p, std::int64_t tokens, int axes = 1, int batch = 1)
      : axes_(axes), batch_(batch), tokens_(tokens) {
    set(p);
  }
  int axes() const noexcept { return axes_; }
  int batch() const noexcept { return batch_; }
  std::int64_t tokens() const noexcept { return tokens_; }

 private:
  friend struct rotary::detail::DeviceAccess;
  void set(const std::int64_t*);
  void set(const std::int32_t*);
  void set(const double*);

  const std::int64_t* int64_ = nullptr;  // one of the three
  const std::int32_t* int32_ = nullptr;
  const double* real_ = nullptr;
  int axes_ = 1;
  int batch_ = 1;
  std::int64_t tokens_ = 0;
};

// A model's frequencies in the device's memory: copied once, then used on any stream (the constructor waits for the
// copy). A moved-from object has no pairs; functions that use it throw SHAPE. Throws PAIRING (unset or unknown), SHAPE,
// SCALING.
class ROTARY_EXPERIMENTAL Frequencies {
 public:
  explicit Frequencies(const rotary::Frequencies&, Stream = nullptr);
  Frequencies(Frequencies&&) noexcept;
  Frequencies& operator=(Frequencies&&) noexcept;
  ~Frequencies();

  Pairing pairing() const noexcept;
  int pairs() const noexcept;  // in a head
  int head_rows() const noexcept;
  int rotary_dim() const noexcept { return 2 * pairs(); }
  int axes() const noexcept;
  double attention_factor() const noexcept;
  const rotary::Frequencies& host() const noexcept;  // the frequencies given to the constructor
  // In the device's memory one value per pair of all heads, 0 if angles are sums: the second argument of phase() in
  // rotary/device.cuh.
  const std::uint64_t* turns() const noexcept;

 private:
  friend struct rotary::detail::DeviceAccess;
  struct State;
  std::unique_ptr<State> state_;
};

// ---- Table: one row of (cos, sin) per token ------------------------------------------------------

// Angles alone converts: Table(f, positions, Angles::float32).
struct TableOptions {
  TableOptions(Angles a = Angles::exact, Rounding r = Rounding::f32) : angles(a), rounding(r) {}  // NOLINT
  Angles angles = Angles::exact;
  Rounding rounding = Rounding::f32;
};

// The rows of rotary::Table, bit for bit, in the device's memory: f32 [batch, tokens, head_rows, pairs]. If angles are
// sums, or with xPos, a position that the host refuses gives NaN. Throws SHAPE, VALUE (unknown angles or rounding),
// SCALING, PAIRING (unset or unknown), POSITION (host positions only), ALIAS.
class ROTARY_EXPERIMENTAL Table {
 public:
  Table() noexcept;  // no tokens, no pairs, no pairing
  Table(const Frequencies&, const Positions&, const TableOptions& = {}, Stream = nullptr);
  Table(const Frequencies&, const rotary::Positions& host, const TableOptions& = {}, Stream = nullptr);
  // Copies cos and sin from the host's memory.
  Table(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing, int batch = 1, Stream = nullptr,
        int head_rows = 1);
  // A view of the caller's cos and sin in the device's memory.
  static Table borrow(const float* cos, const float* sin, int pairs, Pairing, std::int64_t tokens, int batch = 1,
                      int head_rows = 1);
  Table(Table&&) noexcept;             // the source becomes Table()
  Table& operator=(Table&&) noexcept;  // likewise; first frees this table's rows, as the destructor does
  ~Table();                            // waits for the device

  // Same as constructing a new table, in this table's memory. If the rows do not fit, it allocates, waits for the
  // device and frees the old rows. If they fit, it does none of this, and a graph can capture it if the positions are
  // in the device's memory (with host positions a capture throws CUDA). Throws ALIAS on a borrowed table. Growing frees
  // rows to which a captured graph, or a caller who kept cos(), may still point: reserve() the maximum first, or use
  // one table for decode and one for prefill.
  void assign(const Frequencies&, const Positions&, const TableOptions& = {}, Stream = nullptr);
  void assign(const Frequencies&, const rotary::Positions& host, const TableOptions& = {}, Stream = nullptr);
  // Same as between() below, in this table's memory.
  void assign(const Frequencies& from, const Positions& from_positions, const Frequencies& to,
              const Positions& to_positions, const TableOptions& = {}, Stream = nullptr);
  // Makes room for `rows` = batch * tokens * head_rows. Keeps the contents. To grow, it allocates, waits and frees like
  // assign.
  void reserve(std::int64_t rows, int pairs);

  Pairing pairing() const noexcept { return rows_.pairing; }
  int pairs() const noexcept { return rows_.pairs; }  // in a head
  int head_rows() const noexcept { return rows_.head_rows; }
  bool xpos() const noexcept { return rows_.xpos; }  // has xPos's amplitude, so it is for queries or for keys
  int rotary_dim() const noexcept { return rows_.rotary_dim(); }
  int batch() const noexcept { return rows_.batch; }
  std::int64_t tokens() const noexcept { return rows_.tokens; }
  const float* cos() const noexcept { return rows_.cos; }  // in the device's memory
  const float* sin() const noexcept { return rows_.sin; }
  // A copy in the host's memory; waits for the stream. Throws PAIRING for Table().
  rotary::Table host(Stream = nullptr) const;

 private:
  struct Memory;
  struct Rows : rotary::detail::TableShape {
    const float* cos = nullptr;
    const float* sin = nullptr;
    bool borrowed = false;
    std::int64_t values() const noexcept { return batch * tokens * head_rows * pairs; }
  };
  void set_rows(const rotary::detail::TableShape&);
  Memory& memory();
  std::unique_ptr<Memory> memory_;  // null until something is allocated
  Rows rows_;
};

// The rows of rotary::between, bit for bit; where it throws because of a position, the pairs that read the position get
// NaN. Otherwise throws what rotary::between throws (SCALING for a frequency below 2^-256 also if both ropes are one),
// SHAPE for rows per head, summed axes, phases and xpos, and ALIAS.
ROTARY_EXPERIMENTAL Table between(const Frequencies& from, const Positions& from_positions, const Frequencies& to,
                                  const Positions& to_positions, const TableOptions& = {}, Stream = nullptr);

// The angle of each pair of each token: the rows of a Table, or Frequencies and Positions. Without a table the kernel
// computes each angle from integer positions: cos and sin are within 1.1e-7 at any int32 position (an attention factor
// is rounded to f32 and multiplied in f32; the bound is then 2e-7 times the factor).
// It keeps the address of the table or of the frequencies, and a copy of the Positions: temporaries do not compile.
class ROTARY_EXPERIMENTAL Rotation {
 public:
  Rotation(const Table& table) noexcept : table_(&table) {}  // NOLINT: converts
  Rotation(const Table&&) = delete;
  // Throws POSITION (double positions), SHAPE (axes that do not match; moved-from frequencies; rows per head, summed
  // axes, phases and xPos, which need a table).
  Rotation(const Frequencies&, const Positions&);
  Rotation(const Frequencies&&, const Positions&) = delete;

  Pairing pairing() const noexcept { return table_ ? table_->pairing() : frequencies_->pairing(); }
  int pairs() const noexcept { return table_ ? table_->pairs() : frequencies_->pairs(); }
  int batch() const noexcept { return table_ ? table_->batch() : positions_->batch(); }
  std::int64_t tokens() const noexcept { return table_ ? table_->tokens() : positions_->tokens(); }

  const Table* table() const noexcept { return table_; }                    // if null, the next two are set
  const Frequencies* frequencies() const noexcept { return frequencies_; }  // null with a table
  const std::optional<Positions>& positions() const noexcept { return positions_; }

 private:
  const Table* table_ = nullptr;
  const Frequencies* frequencies_ = nullptr;
  std::optional<Positions> positions_;
};

// ---- rotate --------------------------------------------------------------------------------------

// A direction alone, or a stream (or an object that converts to one) alone, converts:
// rotate(x, table, Direction::backward), rotate(x, table, stream), rotate(x, table, {Direction::backward, stream}).
struct RotateOptions {
  RotateOptions(Direction d = Direction::forward, Stream s = nullptr) : direction(d), stream(s) {}  // NOLINT
  RotateOptions(Stream s) : stream(s) {}                                                            // NOLINT
  template <class S>
    requires std::is_class_v<S> && std::convertible_to<const S&, Stream>
  RotateOptions(const S& s) : stream(s) {}  // NOLINT
  Direction direction = Direction::forward;
  Stream stream = nullptr;
};

// Same as in rotary.h, bit for bit. q and k of the same dtype take one launch. Also throws:
// SHAPE: interleaved_to_half in place with a rotary_dim above 2048;
// ALIAS: the output overlaps the table's rows, or the positions.
ROTARY_EXPERIMENTAL void rotate(const Heads& x, const Rotation&, const RotateOptions& = {});
ROTARY_EXPERIMENTAL void rotate(const ConstHeads& x, const Heads& out, const Rotation&, const RotateOptions& = {});
ROTARY_EXPERIMENTAL void rotate_qk(const Heads& q, const Heads& k, const Rotation&, const RotateOptions& = {});
ROTARY_EXPERIMENTAL void rotate_qk(const InOut& q, const InOut& k, const Rotation&, const RotateOptions& = {});

// ---- fused operations: norm, rotation and cache write in one launch ------------------------------

// The types of cache.h, in the device's memory. k and v of tokens that are skipped may still be read.
using rotary::CacheType;
using Cache = CacheIn<Device>;
using Slots = SlotsIn<Device>;
// k and v are each [pages, page_size, heads, head_dim] (vLLM; flashinfer's NHD) or [pages, heads, page_size, head_dim]
// (its HND), contiguous; v_head_dim 0: v has head_dim elements too. Throw SHAPE.
ROTARY_EXPERIMENTAL Cache nhd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim,
                              CacheType = CacheType::same, int v_head_dim = 0);
ROTARY_EXPERIMENTAL Cache hnd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim,
                              CacheType = CacheType::same, int v_head_dim = 0);
// As in cache.h. q is slice(q, first, rope_dim). The latent has a launch of its own.
ROTARY_EXPERIMENTAL Cache latent_rows(void* rows, std::int64_t pages, int page_size, int latent_dim, int rope_dim,
                                      CacheType = CacheType::same);

// x / sqrt(mean(x^2) + eps) * weight. The mean is over one head, or over all heads of a token (OLMo 2).
struct Norm {
  const void* weight = nullptr;  // head_dim elements, or heads * head_dim if across_heads; null: no weight
  DType dtype = DType::f32;      // the weight's type
  float eps = 1e-6f;
  bool one_plus = false;      // multiplies by 1 + weight (Gemma)
  bool round_before = true;   // rounds to x's dtype before and after the weight (Llama, Qwen3); else after (Gemma)
  bool across_heads = false;  // the mean is over all heads of a token
};

// Outputs must not overlap any other argument (ALIAS), except where a function allows it. Slots::indices is not
// checked: only the device knows its length.

// Norms x into out, which may be x. The sum of squares is f32; the order of its additions depends only on dtype and
// shape.
// Throws SHAPE, DTYPE, ALIAS, VALUE (eps).
ROTARY_EXPERIMENTAL void rms_norm(const ConstHeads& x, const Heads& out, const Norm&, Stream = nullptr);
// Copies k and v, which may have no elements, to their slots. Throws SHAPE, DTYPE, ALIAS, VALUE (k_scale, v_scale).
ROTARY_EXPERIMENTAL void append(const ConstHeads& k, const ConstHeads& v, const Cache&, const Slots&, Stream = nullptr);
// Rotates q into q_out (which may be q) and k into its slots, and copies v to its slots. The result equals rotate, then
// append, bit for bit. Throws SHAPE (also a table with rows for other heads than k's), DTYPE, ALIAS, PAIRING, SCALING
// (a table with xPos), VALUE (k_scale, v_scale).
ROTARY_EXPERIMENTAL void rotate_append(const ConstHeads& q, const Heads& q_out, const ConstHeads& k,
                                       const ConstHeads& v, const Rotation&, const Cache&, const Slots&,
                                       Stream = nullptr);
// Norms and rotates q into q_out (which may be q's part of qkv, except with interleaved_to_half) and k into its slots,
// and copies v to its slots. The heads of qkv are those of q, then kv_heads of k, then kv_heads of v. The result equals
// rms_norm, rotate, then append, bit for bit. Throws what rotate_append throws, and VALUE (eps).
ROTARY_EXPERIMENTAL void norm_rotate_append(const ConstHeads& qkv, std::int64_t kv_heads, const Heads& q_out,
                                            const Norm& q_norm, const Norm& k_norm, const Rotation&, const Cache&,
                                            const Slots&, Stream = nullptr);

// ---- shift ---------------------------------------------------------------------------------------

// shift() of cache.h, bit for bit, always forward and from element 0. One thread moves every `drop`-th token in turn,
// so dropping few tokens of few sequences is slow. A token beyond its sequence's pages is skipped. Throws SHAPE, DTYPE,
// ALIAS, PAIRING (interleaved_to_half, which between() never returns).
using Sequences = SequencesIn<Device>;
ROTARY_EXPERIMENTAL void shift(const Heads& k, const Heads& v, const Table&, std::int64_t keep, std::int64_t drop,
                               const Sequences& = {}, Stream = nullptr);

}  // namespace rotary::gpu
