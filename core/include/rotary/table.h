// Positions, and tables with a row of cos and sin for each position.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "rotary/error.h"
#include "rotary/export.h"
#include "rotary/heads.h"
#include "rotary/rope.h"
#include "rotary/threads.h"

namespace rotary {

// ---- Positions -----------------------------------------------------------------------------------

namespace detail {
struct PositionsAccess;
struct RowsAccess;
template <class T>
concept PositionValue = std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> || std::same_as<T, double>;
// The facts of a table beside its rows, on the host or a device.
struct TableShape {
  Pairing pairing = Pairing::unset;
  int pairs = 0;
  int batch = 1;
  std::int64_t tokens = 0;
  int head_rows = 1;
  bool xpos = false;
  int rotary_dim() const noexcept { return 2 * pairs; }
};
}  // namespace detail

// The position of every token, row-major [axes, batch, tokens]. A rope of several axes also takes positions of one axis
// and uses them for every axis (text); axes that no pair uses are not read (on a device, a rope of one axis refuses
// positions of several). A batch of 1 serves tensors of any batch size.
// Constructed from an lvalue range or a span of int32, int64 or double, it is a view, and the range must outlive it;
// constructed from anything else (a number, a braced list, a temporary vector), it owns the values.
// Constructors throw SHAPE (the number of values is not a multiple of axes * batch) and POSITION (an integer beyond
// int64). Positions that are not finite are refused where they are used.
class ROTARY_API Positions {
 public:
  template <class T>
  requires((std::integral<T> && !std::same_as<T, bool>) || std::floating_point<T>) Positions(T position)
      : tokens_(1) {  // NOLINT: one token; allocates nothing
    if constexpr (std::floating_point<T>) {
      kind_ = Kind::one_real;
      real_ = static_cast<double>(position);
    } else {
      first_ = integer(position);
    }
  }
  template <class T>
  requires((std::integral<T> && !std::same_as<T, bool>) || std::floating_point<T>)
      Positions(std::initializer_list<T> list, int axes = 1, int batch = 1)
      : axes_(axes), batch_(batch) {
    if constexpr (std::floating_point<T>) {
      own(std::vector<double>(list.begin(), list.end()));
    } else {
      std::vector<std::int64_t> values;
      for (const T value : list) values.push_back(integer(value));
      own(std::move(values));
    }
  }
  template <std::ranges::contiguous_range Range>
  requires std::ranges::sized_range<Range> && detail::PositionValue<std::ranges::range_value_t<Range>> Positions(
      Range&& range, int axes = 1, int batch = 1)
      : axes_(axes), batch_(batch) {  // NOLINT: a view, as span
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
  template <class T>
  void view(std::span<const T> p) {
    set(std::same_as<T, std::int32_t>   ? Kind::int32
        : std::same_as<T, std::int64_t> ? Kind::int64
                                        : Kind::real,
        p.data(), p.size());
  }
  template <class T>
  void own(std::vector<T> values) {
    const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    view(std::span<const T>(*owner));
    owner_ = owner;
  }
  void set(Kind, const void* data, std::size_t size);

  const void* data_ = nullptr;
  std::int64_t first_ = 0;  // a run's: first, first + 1, ...
  double real_ = 0;
  std::int64_t tokens_ = 0;
  int axes_ = 1;
  int batch_ = 1;
  Kind kind_ = Kind::run;
  std::shared_ptr<const void> owner_;
};

// first, first + 1, ..., first + count - 1: the positions of count tokens that follow `first` tokens in a KV cache.
// Allocates nothing. Throws SHAPE (count below 0), POSITION (beyond int64).
ROTARY_API Positions positions(std::int64_t first, std::int64_t count);

// ---- Table: one row of (cos, sin) per token ------------------------------------------------------

enum class Angles : std::uint8_t {
  exact,    // the correctly rounded f32 of attention_factor * cos(position * inv_freq), at any position
  float32,  // the float32 steps of Hugging Face and most engines, each step correctly rounded
};
ROTARY_API const char* name(Angles) noexcept;           // "exact", "float32"
ROTARY_API Angles parse_angles(std::string_view name);  // throws VALUE

// The type to which the values of a table are rounded. They are always stored as f32.
enum class Rounding : std::uint8_t {
  f32,
  f16,   // as in an engine with f16 tables; with Angles::exact rounded once, from the real number
  bf16,  // the same with bf16
};
ROTARY_API const char* name(Rounding) noexcept;             // "f32", "f16", "bf16"
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

// Rows of cos and sin in the caller's memory, such as an engine's table of all positions, and for each token the number
// of its row. Row n begins at cos + n * stride and sin + n * stride: vLLM's cos_sin_cache [rows, 2 * pairs] has
// sin = cos + pairs and stride = 2 * pairs. The memory must outlive the calls that take it.
struct Rows {
  const void* cos = nullptr;
  const void* sin = nullptr;
  DType dtype = DType::f32;
  int pairs = 0;
  Pairing pairing = Pairing::unset;
  std::int64_t stride = 0;  // in elements, at least head_rows * pairs; not read if there is one row
  std::int64_t rows = 0;
  Positions numbers;  // [batch, tokens], integers from 0 to rows - 1
  int head_rows = 1;  // a row is [head_rows, pairs]
  bool xpos = false;  // the rows have xPos's amplitude, so they are for queries or for keys
};

// cos and sin are f32, row-major [batch, tokens, head_rows, pairs]; batch is 1 if all batch rows share positions,
// head_rows is 1 if all heads rotate alike. With xpos, a value's factor is the double nearest to attention_factor times
// the amplitude. Several threads may use one const Table at the same time.
// Throws PAIRING (unset or unknown), SHAPE, VALUE (unknown angles or rounding; with summed axes, a phase or
// xpos: other angles than exact), SCALING (a frequency that is not finite; with summed axes, a phase or xpos: one below
// 2^-256 in magnitude that is not 0), POSITION (not finite; with Angles::float32: an angle that overflows; with summed
// axes, a phase or xpos: below 2^-64 in magnitude and not 0; an amplitude that overflows).
class ROTARY_API Table {
 public:
  Table() noexcept;  // no tokens, no pairs, no pairing, until assign
  Table(const Frequencies&, const Positions&, const TableOptions& = {});
  // Copies cos and sin, f32 [batch, tokens, head_rows, pairs]. xpos: they have xPos's amplitude.
  Table(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing, int batch = 1, int head_rows = 1,
        bool xpos = false);
  // Copies the numbered rows; f16 and bf16 become the same values in f32. Throws PAIRING, SHAPE, DTYPE, POSITION.
  explicit Table(const Rows&);
  // A view of cos and sin: both must outlive the table and every table moved from it. A copy of the table owns its
  // rows.
  static Table borrow(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing, int batch = 1,
                      int head_rows = 1);
  static Table borrow(const std::vector<float>&&, std::span<const float>, int, Pairing, int = 1, int = 1) = delete;
  static Table borrow(std::span<const float>, const std::vector<float>&&, int, Pairing, int = 1, int = 1) = delete;
  Table(const Table&);
  Table(Table&&) noexcept;  // the source keeps no tokens and no pairs
  Table& operator=(const Table&);
  Table& operator=(Table&&) noexcept;
  ~Table();

  // Same as constructing a new table, in this table's memory: a decode loop that assigns one row per step allocates
  // nothing. The table prepares its frequencies once, as long as their values stay the same: use one Table for each
  // rope. On error the table is unchanged. Do not pass it its own cos(), sin() or rows made of them.
  void assign(const Frequencies&, const Positions&, const TableOptions& = {});
  void assign(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing, int batch = 1,
              int head_rows = 1, bool xpos = false);
  void assign(const Rows&);
  // Same as table = between(...), see below, in this table's memory: another step of the same size allocates nothing.
  void assign_between(const Frequencies& from, const Positions& from_positions, const Frequencies& to,
                      const Positions& to_positions, const TableOptions& = {});

  Pairing pairing() const noexcept { return shape_.pairing; }
  int pairs() const noexcept { return shape_.pairs; }  // in a head
  int head_rows() const noexcept { return shape_.head_rows; }
  bool xpos() const noexcept { return shape_.xpos; }  // has xPos's amplitude, so it is for queries or for keys
  int rotary_dim() const noexcept { return shape_.rotary_dim(); }
  int batch() const noexcept { return shape_.batch; }
  std::int64_t tokens() const noexcept { return shape_.tokens; }
  std::span<const float> cos() const noexcept { return cos_; }
  std::span<const float> sin() const noexcept { return sin_; }
  // The rows of one table of all positions, to rotate by their numbers: row b * tokens() + t is that of token t in
  // batch row b. A view: this table must outlive it and must not be assigned meanwhile. Several threads may use one
  // table so.
  Rows rows(Positions numbers) const;

 private:
  friend struct detail::RowsAccess;
  struct State;  // the rows' memory and the frequencies last prepared
  void set(const detail::TableShape&);
  void reserve(std::size_t size);
  void copy_rows(std::span<const float> cos, std::span<const float> sin);
  std::unique_ptr<State> state_;
  std::span<const float> cos_;
  std::span<const float> sin_;
  detail::TableShape shape_;
  const Rows* numbered_ = nullptr;  // during rotate: the caller's rows, read by number
};

// The table that re-rotates keys: rotate(k, table) turns keys that `from` rotated at from_positions into keys as `to`
// rotates them at to_positions. The angle is to_position * to.inv_freq - from_position * from.inv_freq, rounded once
// like every other table's; the factor is the double nearest to.attention_factor / from.attention_factor, so that a
// shift, with one rope on both sides, does not apply it again. Both positions have the same number of tokens. The
// pairing is that of rotated keys: half for interleaved_to_half. A phase of both ropes cancels; xPos multiplies by the
// amplitude of the distance. Throws what Table's constructor throws, and PAIRING (from and to lay out pairs
// differently), SHAPE (pairs, tokens, batches or heads differ; two ropes, one with xpos), SCALING (attention factors
// without a finite ratio, or a frequency below 2^-256 in magnitude that is not 0), POSITION (likewise below 2^-64; with
// xpos: distances that are not exact), VALUE (angles other than exact).
ROTARY_API Table between(const Frequencies& from, const Positions& from_positions, const Frequencies& to,
                         const Positions& to_positions, const TableOptions& = {});

// Writes the rows of Table(frequencies, positions, {angles, rounding to dtype}) as dtype: row r, [head_rows, pairs], of
// token r % tokens in batch row r / tokens goes to cos + r * stride and sin + r * stride (in elements). Allocates a
// table. Throws what Table throws, and SHAPE (a stride below the row's size, rows that span 2^63 bytes, null), DTYPE
// (unknown, misaligned), ALIAS (cos and sin overlap).
ROTARY_API void write_rows(const Frequencies&, const Positions&, void* cos, void* sin, DType, std::int64_t stride,
                           Angles = Angles::exact, const Executor& = serial());
void write_rows(const Frequencies&, const Positions&, void*, void*, DType, std::int64_t, Angles,
                const Executor&&) = delete;

}  // namespace rotary
