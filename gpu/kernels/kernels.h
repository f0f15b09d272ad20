// The checked requests that the CUDA kernels receive, and the functions that launch them. All pointers are to the
// device's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rotary/gpu.h"

namespace rotary::gpu {

using namespace detail;

inline constexpr int limbs_per_pair = 3;

struct FrequencyArrays {
  int pairs = 0;  // over all heads that have their own rows
  // If above 0, angles are sums of that many products: inv_freq is [terms][pairs], term a has the position on axis a,
  // or 1 if it is the last and there is a phase; with xPos [2][pairs] follow, the logarithm of zeta and its lower part.
  // The arrays for one product are then not filled.
  int terms = 0;
  bool phase = false;
  bool clockwise = false;
  bool decidable = true;  // see turns.h; false: every value is settled in wide arithmetic
  double attention_factor = 1;
  float factor_float32 = 1;
  // Per pair: inv_freq / (2 pi) modulo 1 in units of 2^-64, rounded to nearest.
  const std::uint64_t* turns = nullptr;
  // [limbs_per_pair][pairs]: the same with weights 2^-64, 2^-128, 2^-192, truncated; a negative frequency is the two's
  // complement.
  const std::uint64_t* limbs = nullptr;
  const double* inv_freq = nullptr;
  const float* inv_freq_float32 = nullptr;
  const std::uint8_t* axis = nullptr;  // null: all 0
};

struct PositionArrays {  // [axes, batch, tokens], in one of the three
  const std::int64_t* i64 = nullptr;
  const std::int32_t* i32 = nullptr;
  const double* f64 = nullptr;
  std::int64_t rows = 0;  // batch * tokens, the positions of one axis
  bool one_axis = true;   // all pairs read the first axis
};

// Row r is written to cos, sin + r * pairs.
struct TableJob {
  FrequencyArrays frequencies;
  PositionArrays positions;
  Angles angles = Angles::exact;
  Rounding rounding = Rounding::f32;
  XPos xpos;  // scale 0: no xPos
  float* cos = nullptr;
  float* sin = nullptr;
};
void launch_table(const TableJob&, Stream);

// The table between two ropes, each at its positions, which have all batch rows or one for all.
struct BetweenJob {
  FrequencyArrays from, to;
  PositionArrays from_positions, to_positions;
  std::int64_t rows = 0;  // batch * tokens
  double factor = 1;
  Rounding rounding = Rounding::f32;
  float* cos = nullptr;
  float* sin = nullptr;
};
void launch_between(const BetweenJob&, Stream);

// A gpu::Rotation. Token t of batch row b has row b * batch_rows + t of cos and sin, or of the positions.
struct RotationArrays {
  const float* cos = nullptr;  // null if there is no table
  const float* sin = nullptr;
  FrequencyArrays frequencies;  // used without a table
  PositionArrays positions;
  std::int64_t batch_rows = 0;  // 0: all batch rows share their positions
  int heads = 1;                // a table's: row r of head h of H lies at (r * heads + h / (H / heads)) * pairs
};

// The heads that a kernel reads and the heads that it writes. Strides are of batch, token, head, in elements.
struct Side {
  const void* in = nullptr;
  void* out = nullptr;  // == in: in place
  std::int64_t heads = 0;
  std::int64_t in_stride[3] = {};
  std::int64_t out_stride[3] = {};
  int rest = 0;  // elements after the pairs to copy (rotate), or to norm and copy (step)
};

// One launch for q and k of equal dtype, batch and tokens. k.heads may be 0; all other sizes are positive.
struct RotateJob {
  Side q, k;
  RotationArrays by;
  DType dtype = DType::f32;
  bool read_interleaved = false;
  bool write_interleaved = false;
  bool backward = false;
  int pairs = 0;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
};
void launch_rotate(const RotateJob&, Stream);

struct NormJob : Norm {
  bool on = false;
};

struct CacheJob {
  void* k = nullptr;
  void* v = nullptr;
  bool f8 = false;
  std::int64_t pages = 0;
  int page_size = 1;
  std::int64_t stride[3] = {};  // page, token, head
  float k_scale = 1, v_scale = 1;
  const float* scales = nullptr;  // if not null, replaces both
  Slots slots;
};

// One pass over q, k and v, any of which may have no heads: norm, rotation (if pairs > 0), store. q is written to
// q.out, k and v to the cache.
struct StepJob {
  Side q, k, v;  // rest: head_dim - 2 * pairs; unused in v, which is not rotated
  NormJob q_norm, k_norm;
  RotationArrays by;
  DType dtype = DType::f32;
  bool read_interleaved = false;
  bool write_interleaved = false;
  int pairs = 0;  // 0: nothing is rotated
  int head_dim = 0;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  CacheJob cache;
};
void launch_step(const StepJob&, Stream);

// The heads of k or v in a cache that move from token t + drop to token t of their sequence.
struct ShiftJob {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t pages = 0, page_size = 0, heads = 0;
  std::int64_t stride[3] = {};  // page, token, head, in elements
  int head_dim = 0, pairs = 0;  // pairs 0: nothing rotates
  RotationArrays by;            // for one token
  bool interleaved = false;
  std::int64_t keep = 0, drop = 0, most = 0;  // most: no sequence has more tokens
  std::int64_t count = 0;                     // the number of sequences
  Sequences sequences;
};
void launch_shift(const ShiftJob&, Stream);

// Throws CUDA if a runtime call failed: "[what] sentence of the runtime".
void check_cuda(int error, const char* what);

// Whether kernels may begin before the stream's earlier ones have ended. Off; tests and measuring programs set it.
bool& overlapped_launches() noexcept;
// Whether the kernel's code for the current device waits. A device is asked once: its kernels are compiled alike.
bool waits(const void* kernel);

}  // namespace rotary::gpu
