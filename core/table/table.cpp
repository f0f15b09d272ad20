#include "runtime/arithmetic.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "angle_job.h"
#include "cpu/targets.h"
#include "positions.h"
#include "rotary/rotary.h"
#include "rotate/overlap.h"
#include "rotate/refuse.h"
#include "runtime/compiler.h"
#include "runtime/float_state.h"
#include "table_checks.h"
#include "turns.h"
#include "values/dtypes.h"
#include "values/fail.h"
#include "values/pairings.h"
#include "values/storage.h"

namespace rotary {

using namespace detail;

namespace {

int axes_of(const std::vector<std::uint8_t>& axis, int summed_axes) noexcept {
  int largest = 0;
  for (const std::uint8_t a : axis) largest = a > largest ? a : largest;
  return summed_axes > 0 ? summed_axes : largest + 1;
}

}  // namespace

int Frequencies::axes() const noexcept { return axes_of(axis, summed_axes); }
int Rope::axes() const noexcept { return axes_of(axis, summed_axes); }

int Frequencies::pairs() const noexcept {
  const int rows = std::max(1, head_rows) * std::max(1, summed_axes);
  return static_cast<int>(inv_freq.size()) / rows;
}

void Frequencies::check() const { checked_pairs(*this); }

// ---- the memory of rows --------------------------------------------------------------------------

namespace detail {

// Uninitialised memory for equally many floats of cos and of sin, both aligned to 64 bytes. Large memory uses huge
// pages where the system has them: 64 MiB then cause 32 page faults instead of 16384.
class RowMemory {
 public:
  RowMemory() = default;
  ~RowMemory() {
    if (cos_ != nullptr) ::operator delete(cos_, alignment());
  }
  RowMemory(const RowMemory&) = delete;
  RowMemory& operator=(const RowMemory&) = delete;

  // Makes room for `size` floats of each, with unspecified values; keeps memory that is large enough. If memory runs
  // out, nothing changes.
  void reserve(std::size_t size) {
    if (size <= capacity_) return;
    constexpr std::size_t step = line / sizeof(float);
    if (size > std::numeric_limits<std::size_t>::max() / (4 * sizeof(float))) {
#if ROTARY_THROWS
      throw std::bad_alloc();
#else
      std::abort();
#endif
    }
    RowMemory larger;
    larger.capacity_ = (size + step - 1) / step * step;
    larger.cos_ = static_cast<float*>(::operator new(larger.bytes(), larger.alignment()));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    // Only advice: if it is refused, the memory has small pages.
    if (larger.bytes() >= huge_page) madvise(larger.cos_, larger.bytes(), MADV_HUGEPAGE);
#endif
    swap(larger);
  }
  float* cos() const noexcept { return cos_; }
  float* sin() const noexcept { return cos_ + capacity_; }
  void swap(RowMemory& other) noexcept {
    std::swap(cos_, other.cos_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  static constexpr std::size_t line = 64, huge_page = std::size_t{1} << 21;
  std::size_t bytes() const noexcept { return 2 * capacity_ * sizeof(float); }
  std::align_val_t alignment() const noexcept { return std::align_val_t{bytes() < huge_page ? line : huge_page}; }

  float* cos_ = nullptr;
  std::size_t capacity_ = 0;  // floats of each, a multiple of 16
};

}  // namespace detail

// ---- the work ------------------------------------------------------------------------------------

namespace {

struct RowFill {
  AngleJob job;
  cpu::AnglesKernel kernel;
};

void fill_rows(void* context, std::int64_t begin, std::int64_t end) {
  const FloatState ours;
  const RowFill& fill = *static_cast<const RowFill*>(context);
  fill.kernel(fill.job, begin, end);
}

// Sets up the job for angles that are sums. Throws VALUE, SCALING, POSITION.
void set_terms(const Frequencies& f, const Positions& p, const PositionValues& values, Angles angles, AngleJob& job,
               std::vector<double>& terms) {
  check_sum(f, angles);
  check_magnitudes("table", p, values.reals);
  if (f.xpos.scale > 0) check_amplitudes(f, values, p.batch() * p.tokens());
  const int axes = f.summed_axes > 0 ? f.summed_axes : job.axes;
  fill_terms(f, axes, job.padded, terms);
  job.phase = !f.phase.empty();
  job.terms = axes + (job.phase ? 1 : 0);
  job.xpos = f.xpos.scale > 0 ? &f.xpos : nullptr;
  job.head_pairs = f.pairs();
  job.inv_freq = terms.data();
  job.axis = nullptr;
}

// Whether a job needs wide arithmetic throughout: with amplitudes, and under -Os with any sum.
bool must_settle(const AngleJob& job) {
#ifdef __OPTIMIZE_SIZE__
  return job.terms > 0;
#else
  return job.xpos != nullptr;
#endif
}

// 0 for pairs that do not rotate, whose phase is exact. Others need larger remainders, because errors add up.
void set_floors(const AngleJob& job, std::vector<double>& floor) {
  const double terms = 2 * job.terms;
  for (int i = 0; i < job.padded; ++i) {
    bool turns = false;
    for (int a = 0; a < job.terms; ++a) turns = turns || job.inv_freq[std::int64_t{a} * job.padded + i] != 0;
    floor[static_cast<std::size_t>(i)] = turns ? terms * terms * smallest_square : 0;
  }
}

}  // namespace

struct Table::State {
  RowMemory rows;
  RowMemory spare;  // receives the new rows if the executor may throw
  Turns turns;
  std::vector<float> float32;
  std::vector<std::int64_t> integers;  // converted positions
  std::vector<double> terms;           // terms of sums, laid out as in AngleJob
  std::vector<std::uint8_t> axis;      // for each pair of all heads
  BetweenMemory between;
};

Table::Table(const Frequencies& f, const Positions& positions, const TableOptions& options) {
  assign(f, positions, options);
}

void Table::assign(const Frequencies& f, const Positions& positions, const TableOptions& options) {
  const FloatState ours;
  const int pairs = checked_pairs(f), row = f.head_rows * pairs;
  check_options(options);
  const std::size_t size = checked_size(positions.batch(), positions.tokens(), row);
  if (state_ == nullptr) state_ = std::make_unique<State>();
  const detail::PositionValues values = detail::PositionsAccess::values(positions, state_->integers);
  check_positions(f, positions, values.reals);
  RowFill fill{{}, cpu::chosen().angles};
  AngleJob& job = fill.job;
  job.angles = options.angles;
  job.rounding = options.rounding;
  job.clockwise = f.clockwise;
  job.pairs = row;
  job.padded = padded_pairs(row);
  job.rows = positions.batch() * positions.tokens();
  job.integers = values.integers;
  job.reals = values.reals;
  job.axes = std::min(positions.axes(), f.axes());
  job.axis = job.axes > 1 ? f.axis.data() : nullptr;
  job.inv_freq = f.inv_freq.data();
  job.attention_factor = f.attention_factor;
  if (job.axis != nullptr && f.head_rows > 1) {
    state_->axis.clear();
    for (int h = 0; h < f.head_rows; ++h) state_->axis.insert(state_->axis.end(), f.axis.begin(), f.axis.end());
    job.axis = state_->axis.data();
  }
  if (is_sum(f)) set_terms(f, positions, values, options.angles, job, state_->terms);
  if (options.angles == Angles::exact) {
    prepare(job.terms > 0 ? state_->terms : f.inv_freq, state_->turns);
    if (job.terms > 0) set_floors(job, state_->turns.floor);
    job.turns = state_->turns.limbs.data();
    job.floor = state_->turns.floor.data();
    if (!decidable(f.attention_factor) || must_settle(job)) fill.kernel = settle_rows;
  } else {
    prepare_float32(f, state_->float32);
    check_float32(f, state_->float32);
    job.inv_freq_float32 = state_->float32.data();
    job.factor_float32 = static_cast<float>(f.attention_factor);
    check_float32(job);
  }

  // The caller's executor may throw; serial() does not.
  const bool may_throw = options.executor != &serial();
  RowMemory& rows = may_throw ? state_->spare : state_->rows;
  rows.reserve(size);
  job.cos = rows.cos();
  job.sin = rows.sin();
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / row);  // rows that take some ten microseconds
  options.executor->run(job.rows, grain, fill_rows, &fill);
  if (may_throw) state_->rows.swap(state_->spare);
  set({f.pairing, pairs, positions.batch(), positions.tokens(), f.head_rows, job.xpos != nullptr});
}

void Table::assign_between(const Frequencies& from, const Positions& from_positions, const Frequencies& to,
                           const Positions& to_positions, const TableOptions& options) {
  const FloatState ours;
  if (state_ == nullptr) state_ = std::make_unique<State>();
  BetweenMemory& memory = state_->between;
  const Positions turns = set_between(from, from_positions, to, to_positions, options, memory);
  assign(memory.turn, turns, options);
}

Table::Table() noexcept = default;

// Sets the shape of the rows in state_.
void Table::set(const TableShape& shape) {
  shape_ = shape;
  const auto size = static_cast<std::size_t>(shape.batch * shape.tokens * shape.head_rows * shape.pairs);
  cos_ = {state_->rows.cos(), size};
  sin_ = {state_->rows.sin(), size};
}

void Table::reserve(std::size_t size) {
  if (state_ == nullptr) state_ = std::make_unique<State>();
  state_->rows.reserve(size);
}

void Table::copy_rows(std::span<const float> cos, std::span<const float> sin) {
  reserve(cos.size());
  std::copy(cos.begin(), cos.end(), state_->rows.cos());
  std::copy(sin.begin(), sin.end(), state_->rows.sin());
}

Table Table::borrow(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing pairing, int batch,
                    int head_rows) {
  detail::check_pairing("table", pairing);
  Table table;
  table.shape_ = {pairing, pairs, batch, checked_tokens(cos.size(), sin.size(), pairs, batch, head_rows), head_rows};
  table.cos_ = cos;
  table.sin_ = sin;
  return table;
}

Table::Table(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing pairing, int batch,
             int head_rows, bool xpos) {
  assign(cos, sin, pairs, pairing, batch, head_rows, xpos);
}

void Table::assign(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing pairing, int batch,
                   int head_rows, bool xpos) {
  detail::check_pairing("table", pairing);
  const std::int64_t tokens = checked_tokens(cos.size(), sin.size(), pairs, batch, head_rows);
  copy_rows(cos, sin);
  set({pairing, pairs, batch, tokens, head_rows, xpos});
}

// ---- rows by number ------------------------------------------------------------------------------

Rows Table::rows(Positions numbers) const {
  const int row = head_rows() * pairs();
  return {cos_.data(), sin_.data(),        DType::f32,         pairs(),     pairing(),
          row,         batch() * tokens(), std::move(numbers), head_rows(), xpos()};
}

Table::Table(const Rows& rows) { assign(rows); }

void Table::assign(const Rows& from) {
  const FloatState ours;  // the product that widens an f16 may take a subnormal
  check_rows("table", from);
  const Positions& numbers = from.numbers;
  const int row = from.head_rows * from.pairs;
  reserve(checked_size(numbers.batch(), numbers.tokens(), row));
  float *cos = state_->rows.cos(), *sin = state_->rows.sin();
  by_type(from.dtype, [&]<class T>(T) {
    for (std::int64_t i = 0; i < numbers.batch() * numbers.tokens(); ++i, cos += row, sin += row) {
      const std::int64_t at = PositionsAccess::integer(numbers, i) * from.stride;
      const T *c = static_cast<const T*>(from.cos) + at, *s = static_cast<const T*>(from.sin) + at;
      std::transform(c, c + row, cos, [](T x) { return decode(x); });
      std::transform(s, s + row, sin, [](T x) { return decode(x); });
    }
  });
  set({from.pairing, from.pairs, numbers.batch(), numbers.tokens(), from.head_rows, from.xpos});
}

void write_rows(const Frequencies& f, const Positions& positions, void* cos, void* sin, DType dtype,
                std::int64_t stride, Angles angles, const Executor& executor) {
  check_dtype("write_rows", dtype);
  const Table table(f, positions, {angles, static_cast<Rounding>(dtype), executor});
  const std::int64_t rows = table.batch() * table.tokens(), pairs = std::int64_t{table.head_rows()} * table.pairs();
  if (stride < pairs)
    fail(Code::SHAPE, "write_rows", "stride must be at least the ", pairs, " pairs of a row but got ", stride);
  if (rows == 0) return;
  const Layout written{.tokens = rows,
                       .heads = table.head_rows(),
                       .head_dim = table.pairs(),
                       .token_stride = stride,
                       .head_stride = table.pairs()};
  const ConstHeads cos_rows{cos, dtype, written}, sin_rows{sin, dtype, written};
  check_readable("write_rows", "cos", cos_rows);
  check_readable("write_rows", "sin", sin_rows);
  check_disjoint("write_rows", memory_of("cos", cos_rows), memory_of("sin", sin_rows));
  by_type(dtype, [&]<class T>(T) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < pairs; ++i) {
        const auto at = static_cast<std::size_t>(r * pairs + i);
        static_cast<T*>(cos)[r * stride + i] = encode<T>(table.cos()[at]);
        static_cast<T*>(sin)[r * stride + i] = encode<T>(table.sin()[at]);
      }
    }
  });
}

// ---- copies and moves ----------------------------------------------------------------------------

Table::Table(const Table& other) {
  copy_rows(other.cos_, other.sin_);
  set(other.shape_);
}

Table::Table(Table&& other) noexcept { *this = std::move(other); }

Table& Table::operator=(const Table& other) { return *this = Table(other); }

Table& Table::operator=(Table&& other) noexcept {
  state_ = std::move(other.state_);
  cos_ = std::exchange(other.cos_, {});
  sin_ = std::exchange(other.sin_, {});
  const TableShape shape = other.shape_;
  other.shape_.pairs = 0, other.shape_.tokens = 0;
  shape_ = shape;
  return *this;
}

Table::~Table() = default;

}  // namespace rotary
