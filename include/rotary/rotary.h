// rotary: rotary position embeddings, once and right.
//
//   Rope --frequencies()--> Frequencies --Table(positions)--> Table --rotate(Heads)--> your memory
//
// Every arrow is a pure function of values. Bad input throws rotary::Error; nothing prints, exits,
// keeps a pointer of the caller's, or starts a thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "rotary/error.h"
#include "rotary/threads.h"

namespace rotary {

// ---- Rope: what the model card says --------------------------------------------------------------

// Which two elements of the rotated block turn together, with n = rotary_dim / 2 pairs.
enum class Pairing : std::uint8_t {
  half,                 // (x[i], x[i + n])      "rotate_half", GPT-NeoX, most of Hugging Face
  interleaved,          // (x[2i], x[2i + 1])    RoFormer, GPT-J, Meta's own Llama
  interleaved_to_half,  // reads (2i, 2i + 1), writes (i, i + n): DeepSeek-V3's family in Hugging Face
};

// The published methods that bend inv_freq. r is Rope::exponent_dim, i the exponent index of a pair,
// b the base, w = b^(-2i/r) the unscaled frequency, f factor, L0 trained_length; a is the attention factor.

// w, a = 1. RoFormer, arXiv:2104.09864.
struct Unscaled {
  bool operator==(const Unscaled&) const = default;
};
// w / factor. Position interpolation, arXiv:2306.15595.
struct Linear {
  double factor = 1;
  bool operator==(const Linear&) const = default;
};
// The base becomes b * factor^(r/(r-2)), whatever the length. bloc97, in the YaRN repository; Hunyuan's "alpha".
struct Ntk {
  double factor = 1;
  bool operator==(const Ntk&) const = default;
};
// (b f)^(-2i/r) f^(-2/r), or with mixed_b = B: w / exp(ln(f)/(r/2)^B (i+1)^B). kexue.fm/9706; vLLM's rope_type "ntk".
struct NtkFixed {
  double factor = 1;
  std::optional<double> mixed_b = {};
  bool operator==(const NtkFixed&) const = default;
};
// The base becomes b (f L/L0 - (f-1))^(r/(r-2)) with L = max(length, L0). Hugging Face.
struct Dynamic {
  double factor = 1;
  std::int64_t trained_length = 0;
  bool operator==(const Dynamic&) const = default;
};
// NTK by parts, with a magnitude. YaRN, arXiv:2309.00071.
struct Yarn {
  double factor = 1;
  std::int64_t trained_length = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;                         // floor and ceil of the correction range; gpt-oss: false
  std::optional<double> attention_factor = {};  // given: a, instead of the magnitude below
  std::optional<double> mscale = {};            // a = M(mscale) / M(mscale_all_dim) when both are given and
  std::optional<double> mscale_all_dim = {};    // not 0, else M(1); M(m) = magnitude * m * ln(factor) + 1
  double magnitude = 0.1;                       // telechat3: 0.07
  bool mscale_ratio = false;                    // DeepSeek's own code: the ratio always, defaults 1 and 0
  double extrapolation_factor = 1;              // vLLM: weight of the unscaled frequencies
  double attn_factor = 1;                       // vLLM, ggml: multiplies a
  bool operator==(const Yarn&) const = default;
};
// w / ext_i, ext = long_factor when length > L0, else short_factor. LongRoPE, arXiv:2402.13753.
struct LongRope {
  std::vector<double> short_factor = {};  // one per pair
  std::vector<double> long_factor = {};   // one per pair
  std::int64_t trained_length = 0;
  double factor = 1;                            // a = sqrt(1 + ln(factor) / ln(L0)) when factor > 1, else 1
  std::optional<double> attention_factor = {};  // replaces a
  std::optional<double> short_mscale = {};      // replace a per length (Phi-3.5-MoE)
  std::optional<double> long_mscale = {};
  bool operator==(const LongRope&) const = default;
};
// Wavelengths above L0/low are stretched by factor, those below L0/high kept, blended between. llama-models, Llama 3.1.
struct Llama3 {
  double factor = 1;
  std::int64_t trained_length = 0;
  double low = 1;
  double high = 4;
  bool operator==(const Llama3&) const = default;
};
// The first floor(fraction * r / 2) pairs turn (w / factor), the rest stand still. p-RoPE, arXiv:2410.06205; Gemma 4.
struct Proportional {
  double fraction = 1;
  double factor = 1;
  bool operator==(const Proportional&) const = default;
};
using Scaling = std::variant<Unscaled, Linear, Ntk, NtkFixed, Dynamic, Yarn, LongRope, Llama3, Proportional>;

// "default", "linear", "ntk", "ntk_fixed", "dynamic", "yarn", "longrope", "llama3", "proportional".
const char* name(const Scaling&) noexcept;
// The scaling of that name with its default values. Throws SCALING.
Scaling parse_scaling(std::string_view name);
// Whether inv_freq or the attention factor depend on the number of tokens in play: Dynamic, LongRope.
bool depends_on_length(const Scaling&) noexcept;
const char* name(Pairing) noexcept;  // "half", "interleaved", "interleaved_to_half"

struct Rope {
  int head_dim = 0;      // elements of one head
  int rotary_dim = 0;    // elements of the rotated block, even; 0: head_dim
  double base = 10000;   // above 1 ("rope_theta")
  Pairing pairing = {};  // set it: there is no right default
  Scaling scaling = {};
  std::vector<std::uint8_t> axis = {};  // which coordinate of a position drives each pair; empty: all 0
  std::vector<int> index = {};          // i in b^(-2i/r), per pair; empty: 0, 1, 2, ...
  int exponent_dim = 0;                 // r in b^(-2i/r); 0: rotary_dim (axial ropes restart it per axis)
  bool clockwise = false;               // turns by minus the angle: (a cos + b sin, b cos - a sin); nanochat
  // Learned values, one per pair or empty; finite; 0: the pair stands still; a negative one turns it backwards.
  std::vector<double> inv_freq = {};    // instead of what base and scaling give; only the attention factor stays theirs
  std::vector<double> multiplier = {};  // multiplies inv_freq, given or not
  bool operator==(const Rope&) const = default;
};

// Axis layouts for Rope::axis. sections are counts of pairs per axis.
std::vector<std::uint8_t> sectioned_axes(std::span<const int> sections);       // Qwen2-VL: ttt hhh www
std::vector<std::uint8_t> interleaved_axes(std::span<const int> sections);     // Qwen3-VL: thw thw ... ttt
std::vector<std::uint8_t> ernie_axes(std::span<const int> height_width_time);  // Ernie 4.5 VL: hwhw... ttt
// A vision rope of several axes, each with its own run of frequencies over rotary_dim / axes elements:
// the first pairs listen to axis 0, the next to axis 1, ...
Rope axial(int head_dim, int axes, double base, Pairing pairing);

// ---- Frequencies: radians per position of every pair ---------------------------------------------

struct Frequencies {
  std::vector<double> inv_freq = {};         // radians per position; 0: the pair stands still
  std::vector<std::uint8_t> axis = {};       // per pair; empty: all 0
  double attention_factor = 1;               // multiplies cos and sin
  std::vector<float> inv_freq_float32 = {};  // the same by the frameworks' float32 steps, for Angles::float32;
                                             // empty: inv_freq rounded
  bool clockwise = false;                    // a Table's sin changes its sign, that of a zero too
  int axes() const noexcept;                 // 1 + the largest axis
};

// inv_freq within 1 ulp of the real-number formula, attention_factor likewise. length is the number
// of tokens in play; only Dynamic and LongRope look at it (0: the trained length).
// Throws SCALING, SHAPE.
Frequencies frequencies(const Rope& rope, std::int64_t length = 0);

// ---- Table: one row of (cos, sin) per token ------------------------------------------------------

enum class DType : std::uint8_t { f32, f16, bf16 };
std::size_t size_of(DType) noexcept;
const char* name(DType) noexcept;  // "f32", "f16", "bf16"

enum class Angles : std::uint8_t {
  exact,    // the correctly rounded f32 of attention_factor * cos(position * inv_freq), at any position
  float32,  // the float32 steps of Hugging Face and most engines, each step correctly rounded
};

// A view of positions, row-major [axes, batch, tokens]. One axis serves ropes of several: text tokens
// have the same position on each. Throws SHAPE.
struct Positions {
  Positions(std::span<const std::int64_t> p, int axes = 1, int batch = 1);
  Positions(std::span<const double> p, int axes = 1, int batch = 1);
  const std::int64_t* integers = nullptr;
  const double* reals = nullptr;  // fractional positions; finite
  int axes = 1;
  int batch = 1;
  std::int64_t tokens = 0;
};

struct TableOptions {
  Angles angles = Angles::exact;
  DType rounding = DType::f32;         // f16, bf16: values of that type, an exact one rounded once
  const Executor* executor = nullptr;  // null: the caller's thread
};

// cos and sin are f32, row-major [batch, tokens, pairs]; batch is 1 where all batch rows share positions.
// Throws SHAPE, DTYPE (rounding), SCALING (a frequency that is not finite), POSITION (not finite; with Angles::float32:
// an angle that overflows).
class Table {
 public:
  Table(const Frequencies&, Pairing, std::span<const std::int64_t> positions, Angles = Angles::exact);
  Table(const Frequencies&, Pairing, const Positions& positions, const TableOptions& = {});
  // From the caller's own cos and sin, f32 [batch, tokens, pairs], copied.
  Table(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing, int batch = 1);
  Table(const Table&);      // its own rows, in memory of its own
  Table(Table&&) noexcept;  // leaves a table of no tokens
  Table& operator=(const Table&);
  Table& operator=(Table&&) noexcept;
  ~Table();

  // As constructing anew, in the storage that this table has: a decode step's row, made again and again, allocates
  // nothing and prepares its frequencies once. On error the table is as it was.
  void assign(const Frequencies&, Pairing, const Positions& positions, const TableOptions& = {});

  Pairing pairing() const noexcept { return pairing_; }
  int pairs() const noexcept { return pairs_; }
  int rotary_dim() const noexcept { return 2 * pairs_; }
  int batch() const noexcept { return batch_; }
  std::int64_t tokens() const noexcept { return tokens_; }
  std::span<const float> cos() const noexcept { return cos_; }
  std::span<const float> sin() const noexcept { return sin_; }

 private:
  struct State;  // the rows' memory, the frequencies as last prepared
  void hold(std::span<const float> cos, std::span<const float> sin);
  std::unique_ptr<State> state_;
  std::span<const float> cos_;
  std::span<const float> sin_;
  Pairing pairing_ = {};
  int pairs_ = 0;
  int batch_ = 1;
  std::int64_t tokens_ = 0;
};

// ---- Heads: the caller's memory ------------------------------------------------------------------

// Element (b, t, h, d) lies at b * batch_stride + t * token_stride + h * head_stride + d. In elements; not negative
// (the stride of a size of one does not matter).
struct Layout {
  std::int64_t batch = 1;
  std::int64_t tokens = 0;
  std::int64_t heads = 1;
  int head_dim = 0;
  std::int64_t batch_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
};
Layout bthd(std::int64_t batch, std::int64_t tokens, std::int64_t heads, int head_dim);
Layout bhtd(std::int64_t batch, std::int64_t heads, std::int64_t tokens, int head_dim);
Layout tbhd(std::int64_t tokens, std::int64_t batch, std::int64_t heads, int head_dim);
Layout thd(std::int64_t tokens, std::int64_t heads, int head_dim);

struct Heads {
  void* data = nullptr;
  DType dtype = DType::f32;
  Layout layout;
};
struct ConstHeads {
  ConstHeads(const Heads& x) : data(x.data), dtype(x.dtype), layout(x.layout) {}  // NOLINT: a view, as span
  ConstHeads(const void* d, DType t, const Layout& l) : data(d), dtype(t), layout(l) {}
  const void* data = nullptr;
  DType dtype = DType::f32;
  Layout layout;
};
// Elements [first, first + head_dim) of every head. Throws SHAPE.
Heads slice(const Heads&, int first, int head_dim);
ConstHeads slice(const ConstHeads&, int first, int head_dim);

// ---- rotate: (a, b) -> (a cos - b sin, b cos + a sin) --------------------------------------------

// The first table.rotary_dim() elements of each head turn; the rest keep their bits (out of place: are
// copied). In f32: product, product, sum, no fused multiply-add; f16 and bf16 convert at the edges, to
// nearest even. Subnormals are kept. The result does not depend on target, threads or split.
// Throws SHAPE (tokens or batch differ from the table's, rotary_dim above head_dim, written elements that overlap),
// DTYPE (in and out differ, misaligned data), ALIAS (x and out overlap without being the same).
void rotate(const Heads& x, const Table&, const Executor& = serial());
void rotate(const ConstHeads& x, const Heads& out, const Table&, const Executor& = serial());

// q and k in one call: one pass over the table, one dispatch. They may differ in heads, head_dim, strides and dtype.
// Throws as rotate does, ALIAS too where written elements of q and k overlap.
void rotate_qk(const Heads& q, const Heads& k, const Table&, const Executor& = serial());
void rotate_qk(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const Heads& k_out, const Table&,
               const Executor& = serial());
// A packed tensor: its heads are those of q, then kv_heads of k, then kv_heads of v; q and k turn. v keeps its bits
// (out of place: is copied). Throws SHAPE too where kv_heads is negative or layout.heads
// is less than 2 * kv_heads.
void rotate_qkv(const Heads& qkv, std::int64_t kv_heads, const Table&, const Executor& = serial());
void rotate_qkv(const ConstHeads& qkv, const Heads& out, std::int64_t kv_heads, const Table&,
                const Executor& = serial());

// The gradient: the transposed map. It keeps the attention factor, so it is the inverse only when that is 1.
void rotate_backward(const Heads& x, const Table&, const Executor& = serial());
void rotate_backward(const ConstHeads& x, const Heads& out, const Table&, const Executor& = serial());
void rotate_qk_backward(const Heads& q, const Heads& k, const Table&, const Executor& = serial());
void rotate_qk_backward(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const Heads& k_out, const Table&,
                        const Executor& = serial());
void rotate_qkv_backward(const Heads& qkv, std::int64_t kv_heads, const Table&, const Executor& = serial());
void rotate_qkv_backward(const ConstHeads& qkv, const Heads& out, std::int64_t kv_heads, const Table&,
                         const Executor& = serial());

}  // namespace rotary
