#include <algorithm>
#include <string>
#include <utility>

#include "angle_job.h"
#include "cpu/targets.h"
#include "rotary/rotary.h"
#include "runtime/float_state.h"
#include "table_checks.h"
#include "table_memory.h"
#include "turns.h"

namespace rotary {

int Frequencies::axes() const noexcept {
  int largest = 0;
  for (const std::uint8_t a : axis) largest = a > largest ? a : largest;
  return largest + 1;
}

// ---- positions -----------------------------------------------------------------------------------

namespace {

std::int64_t tokens_of(std::size_t size, int axes, int batch) {
  if (axes < 1) throw Error("SHAPE", "[positions] axes must be at least 1 but is " + std::to_string(axes));
  if (batch < 1) throw Error("SHAPE", "[positions] batch must be at least 1 but is " + std::to_string(batch));
  const auto rows = static_cast<std::uint64_t>(axes) * static_cast<std::uint64_t>(batch);
  if (size % rows != 0)
    throw Error("SHAPE", "[positions] the number of positions must be a multiple of axes * batch = " +
                             std::to_string(rows) + " but is " + std::to_string(size));
  return static_cast<std::int64_t>(size / rows);
}

}  // namespace

Positions::Positions(std::span<const std::int64_t> p, int axes_, int batch_)
    : integers(p.data()), axes(axes_), batch(batch_), tokens(tokens_of(p.size(), axes_, batch_)) {}

Positions::Positions(std::span<const double> p, int axes_, int batch_)
    : reals(p.data()), axes(axes_), batch(batch_), tokens(tokens_of(p.size(), axes_, batch_)) {}

// ---- the work ------------------------------------------------------------------------------------

namespace {

struct Work {
  AngleJob job;
  cpu::AnglesKernel kernel;
};

void fill_rows(void* context, std::int64_t begin, std::int64_t end) {
  const FloatState ours;
  const Work& work = *static_cast<const Work*>(context);
  work.kernel(work.job, begin, end);
}

}  // namespace

struct Table::State {
  Rows rows;
  Rows spare;  // where the next rows are made when making them may fail midway
  Turns turns;
  std::vector<float> float32;
};

Table::Table(const Frequencies& f, Pairing pairing, std::span<const std::int64_t> positions, Angles angles)
    : Table(f, pairing, Positions(positions), TableOptions{angles, DType::f32, nullptr}) {}

Table::Table(const Frequencies& f, Pairing pairing, const Positions& positions, const TableOptions& options) {
  assign(f, pairing, positions, options);
}

void Table::assign(const Frequencies& f, Pairing pairing, const Positions& positions, const TableOptions& options) {
  const FloatState ours;
  const int pairs = checked_pairs(f);
  if (options.rounding > DType::bf16)
    throw Error("DTYPE", "[table] rounding must be f32, f16 or bf16 but is value " +
                             std::to_string(static_cast<int>(options.rounding)));
  const std::size_t size = checked_size(positions.batch, positions.tokens, pairs);
  check_positions(f, positions);
  if (state_ == nullptr) state_ = std::make_unique<State>();
  Work work{{}, cpu::chosen().angles};
  AngleJob& job = work.job;
  job.angles = options.angles;
  job.rounding = options.rounding;
  job.clockwise = f.clockwise;
  job.pairs = pairs;
  job.padded = padded_pairs(pairs);
  job.rows = positions.batch * positions.tokens;
  job.integers = positions.integers;
  job.reals = positions.reals;
  job.axes = positions.axes;
  job.axis = positions.axes > 1 ? f.axis.data() : nullptr;
  job.inv_freq = f.inv_freq.data();
  job.attention_factor = f.attention_factor;
  if (options.angles == Angles::exact) {
    prepare(f.inv_freq, state_->turns);
    job.turns = state_->turns.limbs.data();
    job.floor = state_->turns.floor.data();
    if (!decidable(f.attention_factor)) work.kernel = settle_rows;
  } else {
    prepare_float32(f, state_->float32);
    check_float32(f, state_->float32);
    job.inv_freq_float32 = state_->float32.data();
    job.factor_float32 = static_cast<float>(f.attention_factor);
    check_float32(job);
  }

  // An executor of the caller's may throw, the caller's own thread does not.
  Rows& rows = options.executor == nullptr ? state_->rows : state_->spare;
  rows.reserve(size);
  job.cos = rows.cos();
  job.sin = rows.sin();
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / pairs);  // rows of some ten microseconds
  const Executor& executor = options.executor != nullptr ? *options.executor : serial();
  executor.run(job.rows, grain, fill_rows, &work);
  if (options.executor != nullptr) state_->rows.swap(state_->spare);
  pairing_ = pairing;
  pairs_ = pairs;
  batch_ = positions.batch;
  tokens_ = positions.tokens;
  cos_ = {state_->rows.cos(), size};
  sin_ = {state_->rows.sin(), size};
}

Table::Table(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing pairing, int batch)
    : pairing_(pairing), pairs_(pairs), batch_(batch), tokens_(checked_tokens(cos.size(), sin.size(), pairs, batch)) {
  hold(cos, sin);
}

// ---- a value like others -------------------------------------------------------------------------

void Table::hold(std::span<const float> cos, std::span<const float> sin) {
  state_ = std::make_unique<State>();
  state_->rows.reserve(cos.size());
  cos_ = {std::copy(cos.begin(), cos.end(), state_->rows.cos()) - cos.size(), cos.size()};
  sin_ = {std::copy(sin.begin(), sin.end(), state_->rows.sin()) - sin.size(), sin.size()};
}

Table::Table(const Table& other)
    : pairing_(other.pairing_), pairs_(other.pairs_), batch_(other.batch_), tokens_(other.tokens_) {
  hold(other.cos_, other.sin_);
}

Table::Table(Table&& other) noexcept { *this = std::move(other); }

Table& Table::operator=(const Table& other) { return *this = Table(other); }

Table& Table::operator=(Table&& other) noexcept {
  state_ = std::move(other.state_);
  cos_ = std::exchange(other.cos_, {});
  sin_ = std::exchange(other.sin_, {});
  pairing_ = other.pairing_;
  pairs_ = other.pairs_;
  batch_ = other.batch_;
  tokens_ = std::exchange(other.tokens_, 0);
  return *this;
}

Table::~Table() = default;

}  // namespace rotary
