#include "device_verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "rotary/reference.h"
#include "values/dtypes.h"
#include "verify.h"

namespace rotary::cli::bench {

namespace {

VerifySteps on_device(const Cell& cell, const DeviceSet& at, const Call& work, gpu::Stream stream) {
  return {[&cell, &at, stream] { at.fill(cell, stream); }, [work, stream] { work(stream); },
          [stream](void* to, const void* from, std::size_t bytes) { gpu::download(to, from, bytes, stream); }};
}

// A finite value as f8 e4m3: rounded to nearest even, saturated at +-448.
std::uint8_t f8_of(double value) {
  const double magnitude = std::min(std::abs(value), 448.0);
  const int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : -6, -6);
  const double steps = std::nearbyint(std::ldexp(magnitude, 3 - exponent));  // from 8 to 16; below 2^-6 from 0
  // 16 steps are the first step of the next exponent: the carry into the exponent bits gives exactly that.
  const int bits = static_cast<int>(steps) + (exponent + 6) * 8;
  return static_cast<std::uint8_t>((std::signbit(value) ? 0x80 : 0) | bits);
}

// The elements as the cache stores them.
std::vector<std::byte> stored(const Cell& cell, const std::vector<std::byte>& elements, float scale) {
  if (!cell.f8) return elements;
  const auto count = static_cast<std::int64_t>(elements.size() / size_of(cell.dtype));
  std::vector<std::byte> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(std::byte{f8_of(value_at(cell.dtype, elements.data(), i) / static_cast<double>(scale))});
  }
  return values;
}

// The heads of those rows, read from the cache.
std::vector<std::byte> gather_cached(const Cell& cell, const void* cache, const DeviceInputs& inputs,
                                     const std::vector<Row>& rows, const VerifySteps& steps) {
  const std::size_t each = cell.f8 ? 1 : size_of(cell.dtype);
  const std::size_t bytes = static_cast<std::size_t>(cell.kv_heads * cell.head_dim) * each;
  std::vector<std::byte> values(rows.size() * bytes);
  std::byte* to = values.data();
  for (const Row& row : rows) {
    const std::int64_t slot = inputs.slots[static_cast<std::size_t>(row.batch * cell.tokens + row.token)];
    steps.read(to, static_cast<const std::byte*>(cache) + static_cast<std::size_t>(slot) * bytes, bytes);
    to += bytes;
  }
  return values;
}

// The results of an appending operation for those rows.
struct Appended {
  Appended(const Cell& cell, const DeviceSet& at, const DeviceInputs& inputs, const std::vector<Row>& rows,
           const VerifySteps& steps)
      : q(gather(at.q_out, rows, steps)),
        k(gather_cached(cell, at.cache.k, inputs, rows, steps)),
        v(gather_cached(cell, at.cache.v, inputs, rows, steps)) {}
  std::vector<std::byte> q, k, v;
};

std::int64_t count_different_bytes(const std::vector<std::byte>& one, const std::vector<std::byte>& other) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < one.size(); ++i) count += one[i] == other[i] ? 0 : 1;
  return count;
}

std::int64_t elements_of(const Cell& cell, const std::vector<Row>& rows) {
  return static_cast<std::int64_t>(rows.size()) * (cell.heads + 2 * cell.kv_heads) * cell.head_dim;
}

std::vector<std::byte> rotated(const Cell& cell, const std::vector<std::byte>& heads, std::int64_t count,
                               const Table& table) {
  std::vector<std::byte> out(heads.size());
  const Layout layout = thd(table.tokens(), count, cell.head_dim);
  reference::rotate(ConstHeads(heads.data(), cell.dtype, layout), Heads{out.data(), cell.dtype, layout}, table);
  return out;
}

std::int64_t verify_append(const Cell& cell, const DeviceSet& at, const DeviceInputs& inputs, const Table& table,
                           const VerifySteps& steps, gpu::Stream stream) {
  const std::vector<Row> rows = chosen_rows(cell);
  steps.fill();
  const std::vector<std::byte> q = gather(at.q, rows, steps), k = gather(at.k, rows, steps);
  const std::vector<std::byte> v = gather(at.v, rows, steps);
  steps.work();
  const Appended found(cell, at, inputs, rows, steps);
  const Table part = table_of(rows, table);
  std::int64_t different = count_rotated(cell, cell.heads, part, q, found.q);
  if (cell.with_table) {
    different += count_different_bytes(stored(cell, rotated(cell, k, cell.kv_heads, part), k_scale), found.k);
  } else if (!cell.f8) {
    different += count_rotated(cell, cell.kv_heads, part, k, found.k);
  } else {  // the tolerance cannot tell adjacent f8 values apart: compare with the parts
    steps.fill();
    parts_of(cell, at, inputs)(stream);
    different += count_different_bytes(Appended(cell, at, inputs, rows, steps).k, found.k);
  }
  different += count_different_bytes(stored(cell, v, v_scale), found.v);
  if (different > 0) fail(cell, "equal the reference", different, elements_of(cell, rows));
  return elements_of(cell, rows);
}

// Counts elements of q that differ from the rotation of x / sqrt(mean(x^2) + eps) * weight by more than rounding
// errors.
std::int64_t count_far_from_normed(const Cell& cell, const std::vector<std::byte>& before,
                                   const std::vector<std::byte>& after, const std::vector<std::byte>& weight,
                                   const Table& table) {
  const std::int64_t width = cell.head_dim, rows = table.tokens() * cell.heads;
  const double step =
      cell.dtype == DType::f32 ? 0x1p-21 : std::ldexp(1.0, -rotary::detail::storage_type(cell.dtype).digits);
  std::vector<double> normed;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto value = [&](std::int64_t i) { return value_at(cell.dtype, before.data(), row * width + i); };
    double squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += value(i) * value(i);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(gpu::Norm().eps));
    for (std::int64_t i = 0; i < width; ++i) {
      normed.push_back(scale * (value(i) * value_at(cell.dtype, weight.data(), i)));
    }
  }
  return count_far(
      cell, cell.heads, table, [&](std::int64_t at) { return normed[static_cast<std::size_t>(at)]; }, after,
      [step](double magnitude, double) { return 4 * step * magnitude + 1e-6; });
}

std::int64_t verify_norm_append(const Cell& cell, const DeviceSet& at, const DeviceInputs& inputs, const Table& table,
                                const VerifySteps& steps, gpu::Stream stream) {
  const std::vector<Row> rows = chosen_rows(cell);
  steps.fill();
  const std::vector<std::byte> before = gather(at.q, rows, steps);
  parts_of(cell, at, inputs)(stream);
  const Appended parts(cell, at, inputs, rows, steps);
  steps.fill();
  steps.work();
  const Appended whole(cell, at, inputs, rows, steps);
  const std::int64_t different = count_different_bytes(parts.q, whole.q) + count_different_bytes(parts.k, whole.k) +
                                 count_different_bytes(parts.v, whole.v);
  if (different > 0) fail(cell, "equal norm, rotation and append bit for bit", different, elements_of(cell, rows));
  std::vector<std::byte> weight(static_cast<std::size_t>(cell.head_dim) * size_of(cell.dtype));
  steps.read(weight.data(), inputs.q_norm.weight, weight.size());
  const std::int64_t far = count_far_from_normed(cell, before, whole.q, weight, table_of(rows, table));
  if (far > 0) fail(cell, "be the norm rotated, within roundings", far, elements_of(cell, rows));
  return elements_of(cell, rows);
}

}  // namespace

std::int64_t verify_on_device(const Cell& cell, const DeviceSet& at, const DeviceInputs& inputs, gpu::Stream stream,
                              const Call& work) {
  const std::vector<std::int64_t> positions = first_positions(cell);
  const Table table(inputs.turns, positions);
  const VerifySteps steps = on_device(cell, at, work, stream);
  if (cell.op == Op::append) return verify_append(cell, at, inputs, table, steps, stream);
  if (cell.op == Op::norm_append) return verify_norm_append(cell, at, inputs, table, steps, stream);
  return verify(cell, {at.q, at.k, at.q_out, at.k_out}, table, steps);
}

std::int64_t verify_device_table(const Cell& cell, const DeviceInputs& inputs, gpu::Stream stream) {
  const std::vector<std::int64_t> positions = first_positions(cell);
  const Table expected(inputs.turns, positions, {Angles::exact, rounding_of(cell)});
  const Table found = inputs.table->host(stream);
  std::int64_t different = 0;
  for (std::size_t i = 0; i < expected.cos().size(); ++i) {
    const bool same = std::memcmp(&expected.cos()[i], &found.cos()[i], sizeof(float)) == 0 &&
                      std::memcmp(&expected.sin()[i], &found.sin()[i], sizeof(float)) == 0;
    different += same ? 0 : 1;
  }
  const auto compared = static_cast<std::int64_t>(expected.cos().size());
  if (different > 0) fail(cell, "have the bits of the CPU's rows", different, compared);
  return compared;
}

}  // namespace rotary::cli::bench
