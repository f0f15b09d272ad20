// rotary: rotary position embeddings, once and right.
//
//   Rope --frequencies()--> Frequencies --Table(positions)--> Table --rotate(Heads)--> your memory
//
// Every arrow is a pure function of values. Bad input throws rotary::Error; nothing prints, exits or starts a thread.
// Only views keep a pointer of the caller's: Positions of a range, Heads, and a Table made by Table::borrow.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "rotary/error.h"
#include "rotary/export.h"
#include "rotary/threads.h"
#include "rotary/version.h"

namespace rotary {

// ---- Rope: what the model card says --------------------------------------------------------------

// Which two elements of the rotated block turn together, with n = rotary_dim / 2 pairs.
enum class Pairing : std::uint8_t {
  unset,                // no default is right: whatever needs the pairing throws PAIRING
  half,                 // (x[i], x[i + n])      "rotate_half", GPT-NeoX, most of Hugging Face
  interleaved,          // (x[2i], x[2i + 1])    RoFormer, GPT-J, Meta's own Llama
  interleaved_to_half,  // reads (2i, 2i + 1), writes (i, i + n): DeepSeek-V3's family in Hugging Face
};

// The published methods that bend inv_freq. r is Rope::exponent_dim, i the exponent index of a pair,
// b the base, w = b^(-2i/r) the unscaled frequency, f factor, L0 trained_length; a is the attention factor.

// w, a = 1. RoFormer, arXiv:2104.09864.
struct Unscaled {};
// w / factor. Position interpolation, arXiv:2306.15595.
struct Linear {
  double factor = 1;
};
// The base becomes b * factor^(r/(r-2)), whatever the length. bloc97, in the YaRN repository; Hunyuan's "alpha".
struct Ntk {
  double factor = 1;
};
// (b f)^(-2i/r) f^(-2/r), or with mixed_b = B: w / exp(ln(f)/(r/2)^B (i+1)^B). kexue.fm/9706; vLLM's rope_type "ntk".
struct NtkFixed {
  double factor = 1;
  std::optional<double> mixed_b = {};
};
// The base becomes b (f L/L0 - (f-1))^(r/(r-2)) with L = max(length, L0). Hugging Face.
struct Dynamic {
  double factor = 1;
  std::int64_t trained_length = 0;
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
};
// Wavelengths above L0/low are stretched by factor, those below L0/high kept, blended between. llama-models, Llama 3.1.
struct Llama3 {
  double factor = 1;
  std::int64_t trained_length = 0;
  double low = 1;
  double high = 4;
};
// The first floor(fraction * r / 2) pairs turn (w / factor), the rest stand still. p-RoPE, arXiv:2410.06205; Gemma 4.
struct Proportional {
  double fraction = 1;
  double factor = 1;
};
using Scaling = std::variant<Unscaled, Linear, Ntk, NtkFixed, Dynamic, Yarn, LongRope, Llama3, Proportional>;

// The published name of a scaling: "default", "linear", "ntk", "dynamic", "yarn", "longrope",
// "llama3", "proportional".
ROTARY_API const char* name(const Scaling&) noexcept;
ROTARY_API bool depends_on_length(const Scaling&) noexcept;
ROTARY_API const char* name(Pairing) noexcept;             // "unset", "half", "interleaved", "interleaved_to_half"
ROTARY_API Pairing parse_pairing(std::string_view name);  // any but "unset"; throws PAIRING

struct Rope {
  int head_dim = 0;      // elements of one head
  int rotary_dim = 0;    // elements of the rotated block, even; 0: head_dim
  double base = 10000;   // above 1 ("rope_theta")
  Pairing pairing = Pairing::unset;  // required
  Scaling scaling = {};
  std::vector<std::uint8_t> axis = {};  // which coordinate of a position drives each pair; empty: all 0
  std::vector<int> index = {};          // i in b^(-2i/r), per pair; empty: 0, 1, 2, ...
  int exponent_dim = 0;                 // r in b^(-2i/r); 0: rotary_dim (axial ropes restart it per axis)
  bool clockwise = false;               // turns by minus the angle: (a cos + b sin, b cos - a sin); nanochat
  // Learned values, one per pair or empty; finite; 0: the pair stands still; a negative one turns it backwards.
  std::vector<double> inv_freq = {};    // instead of what base and scaling give; only the attention factor stays theirs
  std::vector<double> multiplier = {};  // multiplies inv_freq, given or not
};

// Axis layouts for Rope::axis. sections are counts of pairs per axis.
ROTARY_API std::vector<std::uint8_t> sectioned_axes(std::span<const int> sections);       // Qwen2-VL: ttt hhh www
ROTARY_API std::vector<std::uint8_t> interleaved_axes(std::span<const int> sections);     // Qwen3-VL: thw thw ... ttt
ROTARY_API std::vector<std::uint8_t> ernie_axes(std::span<const int> height_width_time);  // Ernie 4.5 VL: hwhw... ttt
// A vision rope of several axes, each with its own run of frequencies over rotary_dim / axes elements:
// the first pairs listen to axis 0, the next to axis 1, ...
ROTARY_API Rope axial(int head_dim, int axes, double base, Pairing pairing);

// ---- Frequencies: radians per position of every pair ---------------------------------------------

struct Frequencies {
  std::vector<double> inv_freq = {};         // radians per position; 0: the pair does not rotate
  Pairing pairing = Pairing::unset;          // required where a Table is made
  std::vector<std::uint8_t> axis = {};       // per pair; empty: all 0
  double attention_factor = 1;               // multiplies cos and sin
  std::vector<float> inv_freq_float32 = {};  // the same by the frameworks' float32 steps, for Angles::float32;
                                             // empty: inv_freq rounded
  bool clockwise = false;                    // negates every sin, including signed zeros
  ROTARY_API int axes() const noexcept;      // 1 + the largest axis
};

// inv_freq within 1 ulp of the real-number formula, attention_factor likewise. length is the number of tokens in play,
// the largest position + 1; 0: no more than the model was trained on. Only scalings for which depends_on_length() is
// true look at it, and for these frequencies(rope) throws LENGTH.
// Throws PAIRING (unset or unknown), SCALING, SHAPE.
ROTARY_API Frequencies frequencies(const Rope& rope);
ROTARY_API Frequencies frequencies(const Rope& rope, std::int64_t length);

// ---- Positions -----------------------------------------------------------------------------------

namespace detail {
struct PositionsAccess;
template <class T>
concept PositionValue =
    std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> || std::same_as<T, double>;
}  // namespace detail

// The position of every token, row-major [axes, batch, tokens]. One axis serves ropes of several axes: every axis then
// takes the same position, as text tokens do. batch 1 serves tensors of any batch size.
// Made from an lvalue range or a span of int32, int64 or double it is a view, which the range must outlive; from
// anything else (a number, a braced list, a temporary vector) it holds the values itself.
// Constructors throw SHAPE (the number of values is no multiple of axes * batch) and POSITION (an integer beyond 64
// bits). Positions that are not finite are refused where they are used.
class ROTARY_API Positions {
 public:
  template <class T>
    requires((std::integral<T> && !std::same_as<T, bool>) || std::floating_point<T>)
  Positions(T position) : tokens_(1) {  // NOLINT: one token; allocates nothing
    if constexpr (std::floating_point<T>) {
      kind_ = Kind::one_real;
      real_ = static_cast<double>(position);
    } else {
      first_ = integer(position);
    }
  }
  template <class T>
    requires((std::integral<T> && !std::same_as<T, bool>) || std::floating_point<T>)
  Positions(std::initializer_list<T> list, int axes = 1, int batch = 1) : axes_(axes), batch_(batch) {
    if constexpr (std::floating_point<T>) {
      own(std::vector<double>(list.begin(), list.end()));
    } else {
      std::vector<std::int64_t> values;
      for (const T value : list) values.push_back(integer(value));
      own(std::move(values));
    }
  }
  template <std::ranges::contiguous_range Range>
    requires std::ranges::sized_range<Range> && detail::PositionValue<std::ranges::range_value_t<Range>>
  Positions(Range&& range, int axes = 1, int batch = 1) : axes_(axes), batch_(batch) {  // NOLINT: a view, as span
    const std::span<const std::ranges::range_value_t<Range>> values(std::ranges::data(range), std::ranges::size(range));
    if constexpr (std::ranges::borrowed_range<Range>) {
      view(values);
    } else {
      own(std::vector(values.begin(), values.end()));
    }
  }

  int axes() const noexcept { return axes_; }
  int batch() const noexcept { return batch_; }
  std::int64_t tokens() const noexcept { return tokens_; }

 private:
  friend struct detail::PositionsAccess;
  friend ROTARY_API Positions positions(std::int64_t first, std::int64_t count);
  enum class Kind : std::uint8_t { int32, int64, real, run, one_real };
  Positions() = default;
  template <class T>
  static std::int64_t integer(T value) {
    if constexpr (sizeof(T) >= sizeof(std::int64_t) && std::unsigned_integral<T>) {
      if (value > static_cast<T>(INT64_MAX)) refuse_integer(value);
    }
    return static_cast<std::int64_t>(value);
  }
  [[noreturn]] static void refuse_integer(std::uint64_t value);
  void view(std::span<const std::int32_t>);
  void view(std::span<const std::int64_t>);
  void view(std::span<const double>);
  void own(std::vector<std::int32_t>);
  void own(std::vector<std::int64_t>);
  void own(std::vector<double>);
  template <class T>
  void hold(std::vector<T>);
  void set(Kind, const void* data, std::size_t size);

  const void* data_ = nullptr;
  std::int64_t first_ = 0;  // of a run: first, first + 1, ...
  double real_ = 0;
  std::int64_t tokens_ = 0;
  int axes_ = 1;
  int batch_ = 1;
  Kind kind_ = Kind::run;
  std::shared_ptr<const void> owner_;
};

// first, first + 1, ..., count of them: the positions of count tokens behind first tokens in a KV cache. Allocates
// nothing. Throws SHAPE (count below 0), POSITION (beyond 64 bits).
ROTARY_API Positions positions(std::int64_t first, std::int64_t count);

// ---- Table: one row of (cos, sin) per token ------------------------------------------------------

enum class Angles : std::uint8_t {
  exact,    // the correctly rounded f32 of attention_factor * cos(position * inv_freq), at any position
  float32,  // the float32 steps of Hugging Face and most engines, each step correctly rounded
};
ROTARY_API const char* name(Angles) noexcept;            // "exact", "float32"
ROTARY_API Angles parse_angles(std::string_view name);  // throws VALUE

// What the values of a table are rounded to. They are stored as f32 in any case.
enum class Rounding : std::uint8_t {
  f32,
  f16,   // values of f16, an exact one rounded once: what an engine with f16 tables has
  bf16,  // values of bf16, likewise
};
ROTARY_API const char* name(Rounding) noexcept;              // "f32", "f16", "bf16"
ROTARY_API Rounding parse_rounding(std::string_view name);  // throws VALUE

// Angles alone, or an executor alone, converts: Table(f, positions, Angles::float32), Table(f, positions, pool).
struct TableOptions {
  TableOptions(Angles a = Angles::exact, Rounding r = Rounding::f32, const Executor& e = serial())  // NOLINT
      : angles(a), rounding(r), executor(&e) {}
  TableOptions(const Executor& e) : executor(&e) {}  // NOLINT
  TableOptions(const Executor&&) = delete;
  TableOptions(Angles, Rounding, const Executor&&) = delete;
  Angles angles = Angles::exact;
  Rounding rounding = Rounding::f32;
  const Executor* executor;
};

// cos and sin are f32, row-major [batch, tokens, pairs]; batch is 1 where all batch rows share positions.
// Throws PAIRING (unset or unknown), SHAPE, VALUE (unknown angles or rounding), SCALING (a frequency that is not
// finite), POSITION (not finite; with Angles::float32: an angle that overflows).
class ROTARY_API Table {
 public:
  Table(const Frequencies&, const Positions&, const TableOptions& = {});
  // From cos and sin of the caller's, f32 [batch, tokens, pairs], copied.
  Table(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing, int batch = 1);
  // The same without a copy: reads them where they lie, so both must outlive the table and what is moved from it. A
  // copy of the table has rows of its own.
  static Table borrow(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing, int batch = 1);
  static Table borrow(const std::vector<float>&&, std::span<const float>, int, Pairing, int = 1) = delete;
  static Table borrow(std::span<const float>, const std::vector<float>&&, int, Pairing, int = 1) = delete;
  Table(const Table&);
  Table(Table&&) noexcept;  // leaves a table of no tokens and no pairs
  Table& operator=(const Table&);
  Table& operator=(Table&&) noexcept;
  ~Table();

  // As constructing anew, in the storage that this table has: a decode step's row, made again and again, allocates
  // nothing and prepares its frequencies once. On error the table is as it was.
  void assign(const Frequencies&, const Positions&, const TableOptions& = {});

  Pairing pairing() const noexcept { return pairing_; }
  int pairs() const noexcept { return pairs_; }
  int rotary_dim() const noexcept { return 2 * pairs_; }
  int batch() const noexcept { return batch_; }
  std::int64_t tokens() const noexcept { return tokens_; }
  std::span<const float> cos() const noexcept { return cos_; }
  std::span<const float> sin() const noexcept { return sin_; }

 private:
  struct State;  // the rows' memory, the frequencies as last prepared
  Table() = default;
  void copy_rows(std::span<const float> cos, std::span<const float> sin);
  std::unique_ptr<State> state_;
  std::span<const float> cos_;
  std::span<const float> sin_;
  Pairing pairing_ = Pairing::unset;
  int pairs_ = 0;
  int batch_ = 1;
  std::int64_t tokens_ = 0;
};

// ---- Heads: the caller's memory ------------------------------------------------------------------

// How q and k are stored.
enum class DType : std::uint8_t { f32, f16, bf16 };
ROTARY_API std::size_t size_of(DType) noexcept;        // bytes of an element
ROTARY_API const char* name(DType) noexcept;           // "f32", "f16", "bf16"
ROTARY_API DType parse_dtype(std::string_view name);  // throws DTYPE

// The 16-bit storage types, by their bits.
struct f16 {
  std::uint16_t bits;
  friend bool operator==(f16, f16) = default;  // of the bits
};
struct bf16 {
  std::uint16_t bits;
  friend bool operator==(bf16, bf16) = default;
};
// To nearest even; NaN stays NaN.
ROTARY_API f16 to_f16(float) noexcept;
ROTARY_API bf16 to_bf16(float) noexcept;
ROTARY_API float to_float(f16) noexcept;
ROTARY_API float to_float(bf16) noexcept;

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
// Contiguous tensors. Throw SHAPE: a size below 0, or 2^63 elements and more.
ROTARY_API Layout bthd(std::int64_t batch, std::int64_t tokens, std::int64_t heads, int head_dim);
ROTARY_API Layout bhtd(std::int64_t batch, std::int64_t heads, std::int64_t tokens, int head_dim);
ROTARY_API Layout tbhd(std::int64_t tokens, std::int64_t batch, std::int64_t heads, int head_dim);
ROTARY_API Layout thd(std::int64_t tokens, std::int64_t heads, int head_dim);

// A view of the heads of a tensor. This raw form is trusted as it is; heads() below checks the layout against the
// memory.
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

namespace detail {
template <class T>
concept StorageElement = std::same_as<T, float> || std::same_as<T, f16> || std::same_as<T, bf16>;
template <StorageElement T>
inline constexpr DType dtype_of = std::same_as<T, float> ? DType::f32 : std::same_as<T, f16> ? DType::f16 : DType::bf16;
ROTARY_API void check_inside(const Layout&, std::size_t elements);
}  // namespace detail

// Heads (ConstHeads where the elements are const) over a std::span, vector or array of float, f16 or bf16, whose first
// element is the layout's first. Throws SHAPE where the layout reaches beyond the memory. A temporary vector does not
// compile.
template <std::ranges::contiguous_range Range>
  requires std::ranges::sized_range<Range> && std::ranges::borrowed_range<Range> &&
           detail::StorageElement<std::ranges::range_value_t<Range>>
auto heads(Range&& memory, const Layout& layout) {
  constexpr DType dtype = detail::dtype_of<std::ranges::range_value_t<Range>>;
  detail::check_inside(layout, static_cast<std::size_t>(std::ranges::size(memory)));
  if constexpr (std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>) {
    return ConstHeads(std::ranges::data(memory), dtype, layout);
  } else {
    return Heads{std::ranges::data(memory), dtype, layout};
  }
}

// Elements [first, first + head_dim) of every head. Throws SHAPE.
ROTARY_API Heads slice(const Heads&, int first, int head_dim);
ROTARY_API ConstHeads slice(const ConstHeads&, int first, int head_dim);

// ---- rotate: (a, b) -> (a cos - b sin, b cos + a sin) --------------------------------------------

enum class Direction : std::uint8_t {
  forward,
  backward,  // the gradient: the transposed map. It keeps the attention factor, so it is the inverse only when that is 1
};

// A direction alone, or an executor alone, converts: rotate(x, table, Direction::backward), rotate(x, table, pool),
// rotate(x, table, {Direction::backward, pool}).
struct RotateOptions {
  RotateOptions(Direction d = Direction::forward, const Executor& e = serial()) : direction(d), executor(&e) {}  // NOLINT
  RotateOptions(const Executor& e) : executor(&e) {}  // NOLINT
  RotateOptions(const Executor&&) = delete;
  RotateOptions(Direction, const Executor&&) = delete;
  Direction direction = Direction::forward;
  const Executor* executor;
};

// What an operation out of place reads and what it writes.
struct InOut {
  ConstHeads in;
  Heads out;
};

// The first table.rotary_dim() elements of each head rotate; the others keep their bits (out of place: are copied).
// In f32: product, product, sum, no fused multiply-add; f16 and bf16 convert at the edges, to nearest even. Subnormals
// are kept. The result does not depend on target, threads or split.
// Throws SHAPE (tokens or batch differ from the table's, rotary_dim above head_dim, written elements that overlap),
// DTYPE (in and out differ, misaligned data), ALIAS (x and out overlap without being the same), PAIRING, VALUE (an
// unknown direction).
ROTARY_API void rotate(const Heads& x, const Table&, const RotateOptions& = {});
ROTARY_API void rotate(const ConstHeads& x, const Heads& out, const Table&, const RotateOptions& = {});

// q and k in one call: one pass over the table, one dispatch. They may differ in heads, head_dim, strides and dtype.
// Out of place: rotate_qk({q, q_out}, {k, k_out}, table).
// Throws as rotate does, ALIAS too where written elements of q and k overlap.
ROTARY_API void rotate_qk(const Heads& q, const Heads& k, const Table&, const RotateOptions& = {});
ROTARY_API void rotate_qk(const InOut& q, const InOut& k, const Table&, const RotateOptions& = {});
// The usual case in one call, in place: q and k of tokens at first_position, first_position + 1, ..., by
// frequencies(rope, first_position + tokens) with exact angles. Callers with several layers make one Table for all of
// them instead. config.h has the same for a model's rope, whose rotated block need not begin at element 0.
// Throws as frequencies, Table and rotate_qk do, SHAPE too where head_dim is not the rope's.
ROTARY_API void rotate_qk(const Heads& q, const Heads& k, const Rope&, std::int64_t first_position,
                          const RotateOptions& = {});

// A packed tensor: its heads are those of q, then kv_heads of k, then kv_heads of v; q and k rotate. v keeps its bits
// (out of place: is copied). Throws SHAPE too where kv_heads is negative or layout.heads is less than 2 * kv_heads.
ROTARY_API void rotate_qkv(const Heads& qkv, std::int64_t kv_heads, const Table&, const RotateOptions& = {});
ROTARY_API void rotate_qkv(const ConstHeads& qkv, const Heads& out, std::int64_t kv_heads, const Table&,
                           const RotateOptions& = {});

}  // namespace rotary
