// Tables in the device's memory: the same checks as for the host's, then a kernel fills them.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "jobs.h"
#include "memory.h"
#include "rotate/refuse.h"
#include "runtime/float_state.h"
#include "table/angle_job.h"
#include "table/positions.h"
#include "table/table_checks.h"
#include "values/fail.h"

namespace rotary::gpu {
namespace {

void check_table(const Frequencies& f, const TableOptions& options) {
  check_pairs("table", f);
  check_options({options.angles, options.rounding});
  if (is_sum(f.host())) return rotary::detail::check_sum(f.host(), options.angles);
  if (options.angles == Angles::float32) check_float32(f.host(), f.host().inv_freq_float32);
}

void refuse_borrowed(bool borrowed) {
  if (borrowed) fail(Code::ALIAS, "table", "a table must own its rows to be assigned but these are borrowed");
}

void check_host_angles(const Frequencies& f, const rotary::Positions& p, const rotary::detail::PositionValues& values) {
  std::vector<std::uint8_t> axis;
  for (int h = 0; h < f.head_rows(); ++h) axis.insert(axis.end(), f.host().axis.begin(), f.host().axis.end());
  AngleJob job;
  job.pairs = f.head_rows() * f.pairs();
  job.rows = p.batch() * p.tokens();
  job.integers = values.integers;
  job.reals = values.reals;
  job.axes = std::min(p.axes(), f.axes());
  job.axis = job.axes > 1 ? axis.data() : nullptr;
  job.inv_freq_float32 = f.host().inv_freq_float32.data();
  check_float32(job);
}

}  // namespace

// ---- memory --------------------------------------------------------------------------------------

struct Table::Memory {
  Allocation rows;                      // cos, then sin
  std::int64_t capacity = 0;            // values of cos, and of sin
  Allocation positions;                 // a copy of host positions
  std::int64_t positions_capacity = 0;  // in bytes

  float* cos() const noexcept { return static_cast<float*>(rows.get()); }
  float* sin() const noexcept { return cos() + capacity; }
  void fit(std::int64_t values);  // makes room for that many values of each; growing loses the contents
};

namespace {

// Memory for at least `values` values of cos and as many of sin. Sets `capacity` to the number that fits.
Allocation allocate_rows(std::int64_t values, std::int64_t& capacity) {
  constexpr std::int64_t line = 64, max_values = std::numeric_limits<std::int64_t>::max() / 16;
  if (values > max_values) check_cuda(cudaErrorMemoryAllocation, "table");
  capacity = (values + line - 1) / line * line;
  return allocate(static_cast<std::size_t>(capacity) * 2 * sizeof(float), "table");
}

// Waits for the device before it frees the old memory, which running work may still use.
void replace(Allocation& old, Allocation fresh) {
  if (old != nullptr) check_cuda(cudaDeviceSynchronize(), "table");
  old = std::move(fresh);
}

}  // namespace

void Table::Memory::fit(std::int64_t values) {
  if (values <= capacity) return;
  std::int64_t fits = 0;
  replace(rows, allocate_rows(values, fits));
  capacity = fits;
}

Table::Table() noexcept = default;
Table::~Table() = default;
Table::Table(Table&& other) noexcept : memory_(std::move(other.memory_)), rows_(std::exchange(other.rows_, {})) {}
Table& Table::operator=(Table&& other) noexcept {
  Table moved(std::move(other));
  memory_.swap(moved.memory_);
  std::swap(rows_, moved.rows_);
  return *this;
}

Table::Memory& Table::memory() {
  if (memory_ == nullptr) memory_ = std::make_unique<Memory>();
  return *memory_;
}

void Table::reserve(std::int64_t rows, int pairs) {
  refuse_borrowed(rows_.borrowed);
  if (rows < 0 || pairs < 0) {
    fail(Code::SHAPE, "table",
         "rows and pairs to reserve must not be negative but got " + std::to_string(rows) + " and " +
             std::to_string(pairs));
  }
  const auto values = static_cast<std::int64_t>(checked_size(1, rows, pairs));
  Memory& own = memory();
  if (values <= own.capacity) return;
  std::int64_t capacity = 0;
  Allocation fresh = allocate_rows(values, capacity);
  const std::int64_t held = rows_.values();
  auto* cos = static_cast<float*>(fresh.get());
  if (held > 0) {
    const std::size_t bytes = static_cast<std::size_t>(held) * sizeof(float);
    check_cuda(cudaDeviceSynchronize(), "table");  // a kernel may still be filling them
    check_cuda(cudaMemcpy(cos, rows_.cos, bytes, cudaMemcpyDeviceToDevice), "table");
    check_cuda(cudaMemcpy(cos + capacity, rows_.sin, bytes, cudaMemcpyDeviceToDevice), "table");
  }
  replace(own.rows, std::move(fresh));
  own.capacity = capacity;
  set_rows(rows_);
}

// Sets the shape of the rows in this table's memory.
void Table::set_rows(const rotary::detail::TableShape& shape) {
  const Memory& own = memory();
  rows_ = {shape, own.cos(), own.sin()};
}

// ---- rows ----------------------------------------------------------------------------------------

Table::Table(const Frequencies& f, const Positions& positions, const TableOptions& options, Stream stream) : Table() {
  assign(f, positions, options, stream);
}

Table::Table(const Frequencies& f, const rotary::Positions& host, const TableOptions& options, Stream stream)
    : Table() {
  assign(f, host, options, stream);
}

void Table::assign(const Frequencies& f, const Positions& positions, const TableOptions& options, Stream stream) {
  refuse_borrowed(rows_.borrowed);
  check_table(f, options);
  check_axes("table", f.host(), positions.axes());
  const int row = rotary::detail::DeviceAccess::arrays(f).pairs;
  const auto values = static_cast<std::int64_t>(checked_size(positions.batch(), positions.tokens(), row));
  Memory& own = memory();
  if (values > 0) {
    check_disjoint("table", gpu::values("the table's rows", own.cos(), 2 * own.capacity),
                   gpu::values("positions", positions));
  }
  own.fit(values);
  set_rows({.pairing = f.pairing(),
            .pairs = f.pairs(),
            .batch = positions.batch(),
            .tokens = positions.tokens(),
            .head_rows = f.head_rows(),
            .xpos = f.host().xpos.scale > 0});
  if (values == 0) return;
  TableJob job;
  job.frequencies = rotary::detail::DeviceAccess::arrays(f);
  job.positions = arrays_of(positions);
  job.angles = options.angles;
  job.rounding = options.rounding;
  job.xpos = f.host().xpos;
  job.cos = own.cos();
  job.sin = own.sin();
  launch_table(job, stream);
}

void Table::assign(const Frequencies& f, const rotary::Positions& host, const TableOptions& options, Stream stream) {
  refuse_borrowed(rows_.borrowed);
  const FloatState ours;
  check_table(f, options);
  checked_size(host.batch(), host.tokens(), rotary::detail::DeviceAccess::arrays(f).pairs);
  std::vector<std::int64_t> converted;
  const rotary::detail::PositionValues values = rotary::detail::PositionsAccess::values(host, converted);
  check_positions(f.host(), host, values.reals);
  if (is_sum(f.host())) check_magnitudes("table", host, values.reals);
  if (f.host().xpos.scale > 0) check_amplitudes(f.host(), values, host.batch() * host.tokens());
  if (options.angles == Angles::float32) check_host_angles(f, host, values);
  const std::int64_t bytes = std::int64_t{8} * host.axes() * host.batch() * host.tokens();
  Memory& own = memory();
  if (bytes > own.positions_capacity) {
    replace(own.positions, allocate(static_cast<std::size_t>(bytes), "table"));
    own.positions_capacity = bytes;
  }
  void* const copy = own.positions.get();
  const auto at = [&](const auto* p) { return Positions(p, host.tokens(), host.axes(), host.batch()); };
  if (values.reals != nullptr) {
    copy_in(copy, values.reals, static_cast<std::size_t>(bytes), "table", stream);
    assign(f, at(static_cast<const double*>(copy)), options, stream);
  } else {
    copy_in(copy, values.integers, static_cast<std::size_t>(bytes), "table", stream);
    assign(f, at(static_cast<const std::int64_t*>(copy)), options, stream);
  }
}

void Table::assign(const Frequencies& from, const Positions& from_positions, const Frequencies& to,
                   const Positions& to_positions, const TableOptions& options, Stream stream) {
  refuse_borrowed(rows_.borrowed);
  check_options({options.angles, options.rounding});
  if (options.angles != Angles::exact) fail(Code::VALUE, "between", "angles must be exact but got float32");
  for (const auto& [f, p] : {std::pair{&from, &from_positions}, std::pair{&to, &to_positions}}) {
    check_pairs("between", *f);
    rotary::detail::check_magnitudes("between", f->host());
    check_axes("between", f->host(), p->axes());
    if (f->host().head_rows != 1 || rotary::detail::is_sum(f->host()))
      fail(Code::SHAPE, "between",
           "from and to must have one frequency for each pair on a device, without rows per head, sums of axes, phases "
           "or xpos");
  }
  rotary::Frequencies turn;
  rotary::detail::check_between(from.host(), {from_positions.batch(), from_positions.tokens()}, to.host(),
                                {to_positions.batch(), to_positions.tokens()}, turn);
  BetweenJob job;
  job.from = rotary::detail::DeviceAccess::arrays(from);
  job.to = rotary::detail::DeviceAccess::arrays(to);
  job.from_positions = arrays_of(from_positions);
  job.to_positions = arrays_of(to_positions);
  const int batch = std::max(from_positions.batch(), to_positions.batch());
  const auto values = static_cast<std::int64_t>(checked_size(batch, to_positions.tokens(), to.pairs()));
  Memory& own = memory();
  for (const Positions* p : {&from_positions, &to_positions}) {
    if (values > 0)
      check_disjoint("between", gpu::values("the table's rows", own.cos(), 2 * own.capacity),
                     gpu::values("positions", *p));
  }
  own.fit(values);
  set_rows({.pairing = turn.pairing, .pairs = to.pairs(), .batch = batch, .tokens = to_positions.tokens()});
  job.rows = batch * to_positions.tokens();
  job.factor = turn.attention_factor;
  job.rounding = options.rounding;
  job.cos = own.cos();
  job.sin = own.sin();
  launch_between(job, stream);
}

Table between(const Frequencies& from, const Positions& from_positions, const Frequencies& to,
              const Positions& to_positions, const TableOptions& options, Stream stream) {
  Table table;
  table.assign(from, from_positions, to, to_positions, options, stream);
  return table;
}

Table::Table(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing pairing, int batch,
             Stream stream, int head_rows)
    : Table() {
  rotary::detail::check_pairing("table", pairing);
  const std::int64_t tokens = checked_tokens(cos.size(), sin.size(), pairs, batch, head_rows);
  if (!cos.empty()) reserve(batch * tokens * head_rows, pairs);
  const Memory& own = memory();
  copy_in(own.cos(), cos.data(), cos.size_bytes(), "table", stream);
  copy_in(own.sin(), sin.data(), sin.size_bytes(), "table", stream);
  set_rows({.pairing = pairing, .pairs = pairs, .batch = batch, .tokens = tokens, .head_rows = head_rows});
}

Table Table::borrow(const float* cos, const float* sin, int pairs, Pairing pairing, std::int64_t tokens, int batch,
                    int head_rows) {
  rotary::detail::check_pairing("table", pairing);
  if (tokens < 0) fail(Code::SHAPE, "table", "tokens must not be negative but got " + std::to_string(tokens));
  checked_tokens(0, 0, pairs, batch, head_rows);
  checked_size(batch, tokens, head_rows * pairs);
  if (tokens > 0) {
    check_pointer("table", "cos", cos, sizeof(float));
    check_pointer("table", "sin", sin, sizeof(float));
  }
  Table table;
  table.rows_ = {{pairing, pairs, batch, tokens, head_rows}, cos, sin, true};
  return table;
}

rotary::Table Table::host(Stream stream) const {
  rotary::detail::check_pairing("table", rows_.pairing);
  const auto values = static_cast<std::size_t>(rows_.values());
  std::vector<float> cos(values), sin(values);
  if (values > 0) {
    const std::size_t bytes = values * sizeof(float);
    check_cuda(cudaMemcpyAsync(cos.data(), rows_.cos, bytes, cudaMemcpyDeviceToHost, stream), "table");
    check_cuda(cudaMemcpyAsync(sin.data(), rows_.sin, bytes, cudaMemcpyDeviceToHost, stream), "table");
    check_cuda(cudaStreamSynchronize(stream), "table");
  }
  return {cos, sin, rows_.pairs, rows_.pairing, rows_.batch, rows_.head_rows, rows_.xpos};
}

}  // namespace rotary::gpu
