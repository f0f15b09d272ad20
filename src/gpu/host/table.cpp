// Tables in the device's memory: checked as those of the host, filled by a kernel.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "apart.h"
#include "call.h"
#include "memory.h"
#include "pointers.h"
#include "runtime/float_state.h"
#include "table/angle_job.h"
#include "table/table_checks.h"

namespace rotary::gpu {
namespace {

void check_options(const Frequencies& f, const TableOptions& options) {
  check_pairs("table", f);
  if (options.rounding > DType::bf16) {
    fail("DTYPE", "table",
         "rounding must be f32, f16 or bf16 but is value " + text(static_cast<int>(options.rounding)));
  }
  if (options.angles == Angles::float32) check_float32(f.host(), f.host().inv_freq_float32);
}

void refuse_borrowed(bool borrowed) {
  if (borrowed) fail("ALIAS", "table", "rows must be the table's own to be made anew but are borrowed");
}

void check_host_angles(const Frequencies& f, const rotary::Positions& p) {
  AngleJob job;
  job.pairs = f.pairs();
  job.rows = p.batch * p.tokens;
  job.integers = p.integers;
  job.reals = p.reals;
  job.axes = p.axes;
  job.axis = p.axes > 1 ? f.host().axis.data() : nullptr;
  job.inv_freq_float32 = f.host().inv_freq_float32.data();
  check_float32(job);
}

}  // namespace

// ---- memory --------------------------------------------------------------------------------------

namespace {

// A block for cos and sin of at least so many values each; capacity: how many.
Block allocate_rows(std::int64_t values, std::int64_t& capacity) {
  constexpr std::int64_t line = 64, most = std::numeric_limits<std::int64_t>::max() / 16;
  if (values > most) check_cuda(cudaErrorMemoryAllocation, "table");
  capacity = (values + line - 1) / line * line;
  return allocate(static_cast<std::size_t>(capacity) * 2 * sizeof(float), "table");
}

void replace(void* old) {
  if (old != nullptr) check_cuda(cudaDeviceSynchronize(), "table");
  Block(old).reset();
}

}  // namespace

void Table::reserve(std::int64_t rows, int pairs) {
  refuse_borrowed(borrowed_);
  if (rows < 0 || pairs < 0) {
    fail("SHAPE", "table",
         "rows and pairs to reserve must not be negative but are " + text(rows) + " and " + text(pairs));
  }
  const auto values = static_cast<std::int64_t>(checked_size(1, rows, pairs));
  if (values <= capacity_) return;
  std::int64_t capacity = 0;
  Block block = allocate_rows(values, capacity);
  const std::int64_t held = tokens_ * batch_ * pairs_;
  auto* memory = static_cast<float*>(block.get());
  if (held > 0) {
    const std::size_t bytes = static_cast<std::size_t>(held) * sizeof(float);
    check_cuda(cudaDeviceSynchronize(), "table");  // who fills them may still do so
    check_cuda(cudaMemcpy(memory, cos_, bytes, cudaMemcpyDeviceToDevice), "table");
    check_cuda(cudaMemcpy(memory + capacity, sin_, bytes, cudaMemcpyDeviceToDevice), "table");
  }
  replace(memory_);
  block.release();
  memory_ = memory;
  capacity_ = capacity;
  set_shape(pairing_, pairs_, batch_, tokens_);
}

void Table::set_shape(Pairing pairing, int pairs, int batch, std::int64_t tokens) {
  pairing_ = pairing;
  pairs_ = pairs;
  batch_ = batch;
  tokens_ = tokens;
  cos_ = memory_;
  sin_ = memory_ + capacity_;
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
  refuse_borrowed(borrowed_);
  check_options(f, options);
  check_unchanged("table", positions);
  check_axes("table", f.axes(), positions.axes);
  const auto values = static_cast<std::int64_t>(checked_size(positions.batch, positions.tokens, f.pairs()));
  if (values > 0) {
    check_apart("table", gpu::values("the table's rows", memory_, 2 * capacity_), gpu::values("positions", positions));
  }
  if (values > capacity_) {
    std::int64_t capacity = 0;
    Block block = allocate_rows(values, capacity);
    replace(memory_);
    memory_ = static_cast<float*>(block.release());
    capacity_ = capacity;
  }
  set_shape(f.pairing(), f.pairs(), positions.batch, positions.tokens);
  if (values == 0) return;
  TableJob job;
  job.frequencies = f.arrays();
  job.positions = arrays_of(positions);
  job.angles = options.angles;
  job.rounding = options.rounding;
  job.cos = memory_;
  job.sin = memory_ + capacity_;
  launch_table(job, stream);
}

void Table::assign(const Frequencies& f, const rotary::Positions& host, const TableOptions& options, Stream stream) {
  refuse_borrowed(borrowed_);
  const FloatState ours;
  check_options(f, options);
  check_positions(f.host(), host);
  checked_size(host.batch, host.tokens, f.pairs());
  if (options.angles == Angles::float32) check_host_angles(f, host);
  const std::int64_t bytes = std::int64_t{8} * host.axes * host.batch * host.tokens;
  if (bytes > positions_capacity_) {
    Block block = allocate(static_cast<std::size_t>(bytes), "table");
    replace(positions_);
    positions_ = block.release();
    positions_capacity_ = bytes;
  }
  const void* from = host.integers != nullptr ? static_cast<const void*>(host.integers) : host.reals;
  copy_in(positions_, from, static_cast<std::size_t>(bytes), "table", stream);
  if (host.reals != nullptr) {
    assign(f, Positions(static_cast<const double*>(positions_), host.tokens, host.axes, host.batch), options, stream);
  } else {
    assign(f, Positions(static_cast<const std::int64_t*>(positions_), host.tokens, host.axes, host.batch), options,
           stream);
  }
}

Table::Table(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing pairing, int batch,
             Stream stream)
    : Table() {
  const std::int64_t tokens = checked_tokens(cos.size(), sin.size(), pairs, batch);
  if (!cos.empty()) reserve(batch * tokens, pairs);
  copy_in(memory_, cos.data(), cos.size_bytes(), "table", stream);
  copy_in(memory_ + capacity_, sin.data(), sin.size_bytes(), "table", stream);
  set_shape(pairing, pairs, batch, tokens);
}

Table Table::borrow(const float* cos, const float* sin, int pairs, Pairing pairing, std::int64_t tokens, int batch) {
  if (tokens < 0) fail("SHAPE", "table", "tokens must not be negative but is " + text(tokens));
  checked_tokens(0, 0, pairs, batch);
  checked_size(batch, tokens, pairs);
  if (tokens > 0) {
    check_pointer("table", "cos", cos, sizeof(float));
    check_pointer("table", "sin", sin, sizeof(float));
  }
  Table table;
  table.set_shape(pairing, pairs, batch, tokens);
  table.cos_ = cos;
  table.sin_ = sin;
  table.borrowed_ = true;
  return table;
}

rotary::Table Table::host(Stream stream) const {
  const auto values = static_cast<std::size_t>(batch_ * tokens_ * pairs_);
  std::vector<float> cos(values), sin(values);
  if (values > 0) {
    const std::size_t bytes = values * sizeof(float);
    check_cuda(cudaMemcpyAsync(cos.data(), cos_, bytes, cudaMemcpyDeviceToHost, stream), "table");
    check_cuda(cudaMemcpyAsync(sin.data(), sin_, bytes, cudaMemcpyDeviceToHost, stream), "table");
    check_cuda(cudaStreamSynchronize(stream), "table");
  }
  return {cos, sin, std::max(pairs_, 1), pairing_, batch_};
}

// ---- a value that moves --------------------------------------------------------------------------

Table::Table(Table&& other) noexcept { swap(other); }

Table& Table::operator=(Table&& other) noexcept {
  Table taken(std::move(other));
  swap(taken);
  return *this;
}

void Table::swap(Table& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(capacity_, other.capacity_);
  std::swap(positions_, other.positions_);
  std::swap(positions_capacity_, other.positions_capacity_);
  std::swap(cos_, other.cos_);
  std::swap(sin_, other.sin_);
  std::swap(borrowed_, other.borrowed_);
  std::swap(pairing_, other.pairing_);
  std::swap(pairs_, other.pairs_);
  std::swap(batch_, other.batch_);
  std::swap(tokens_, other.tokens_);
}

Table::~Table() {
  Block(memory_).reset();
  Block(positions_).reset();
}

}  // namespace rotary::gpu
