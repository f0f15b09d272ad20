#include "verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "rotary/reference.h"
#include "values/dtypes.h"
#include "values/pairings.h"
#include "values/storage.h"

namespace rotary::cli::bench {

using namespace rotary::detail;

double value_at(DType dtype, const std::byte* data, std::int64_t index) {
  const std::byte* const at = data + index * static_cast<std::int64_t>(size_of(dtype));
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, size_of(dtype));
  const auto half = static_cast<std::uint16_t>(bits);
  switch (dtype) {
    case DType::f32:
      return static_cast<double>(float_of(bits));
    case DType::f16:
      return static_cast<double>(to_float(f16{half}));
    case DType::bf16:
      return static_cast<double>(to_float(bf16{half}));
  }
  return 0;
}

namespace {

constexpr std::int64_t max_elements = std::int64_t{1} << 17;  // the reference is slow
constexpr std::int64_t max_pairs = std::int64_t{1} << 14;

// Half the distance between adjacent numbers of dtype near the value.
double half_step(DType dtype, double value) {
  const StorageType& type = storage_type(dtype);
  return std::ldexp(std::abs(value), -type.digits) + std::ldexp(0.5, type.lowest);
}

// Counts elements that a rotation in f32, rounded once, cannot give if cos and sin are within 1.1e-7 of the true ones;
// the table's own values are within 2^-25.
std::int64_t count_far_by_angle(const Cell& cell, std::int64_t heads, const Table& table,
                                const std::vector<std::byte>& before, const std::vector<std::byte>& after) {
  constexpr double of_angle = 1.1e-7 + 0x1p-25, of_arithmetic = 0x1p-23;
  const auto value = [&](std::int64_t at) { return value_at(cell.dtype, before.data(), at); };
  std::int64_t far = count_far(cell, heads, table, value, after, [&](double magnitude, double rotated) {
    const double allowed = (of_angle + of_arithmetic) * magnitude;
    return allowed + half_step(cell.dtype, std::abs(rotated) + allowed);
  });
  for (std::int64_t row = 0; row < table.tokens() * heads; ++row) {
    for (std::int64_t rest = 2 * table.pairs(); rest < cell.head_dim; ++rest) {
      const std::int64_t at = row * cell.head_dim + rest;
      far += value(at) == value_at(cell.dtype, after.data(), at) ? 0 : 1;
    }
  }
  return far;
}

// Counts elements that differ from the reference in any bit.
std::int64_t count_different(const Cell& cell, std::int64_t heads, const Table& table,
                             const std::vector<std::byte>& before, const std::vector<std::byte>& after) {
  const Layout layout = thd(table.tokens(), heads, cell.head_dim);
  std::vector<std::byte> expected(before.size());
  reference::rotate(ConstHeads(before.data(), cell.dtype, layout), Heads{expected.data(), cell.dtype, layout}, table,
                    cell.op == Op::backward ? Direction::backward : Direction::forward);
  const std::size_t size = size_of(cell.dtype);
  std::int64_t different = 0;
  for (std::size_t at = 0; at < before.size(); at += size) {
    different += std::memcmp(expected.data() + at, after.data() + at, size) == 0 ? 0 : 1;
  }
  return different;
}

// The largest error of a correctly rounded f32 value, or of that value rounded once more to dtype, plus a margin for
// the error of this check.
long double tolerance(float value, DType dtype) {
  const float magnitude = std::abs(value);
  const auto spacing = static_cast<long double>(std::nextafter(magnitude, 2.0F)) - static_cast<long double>(magnitude);
  const long double once = (0.5L + 0x1p-16L) * spacing;
  if (dtype == DType::f32) return once;
  const StorageType& type = storage_type(dtype);
  const int dropped = storage_type(DType::f32).digits - type.digits;
  return once + 0.5L * std::max(std::ldexp(spacing, dropped), std::ldexp(1.0L, type.lowest));
}

// position * inv_freq is exact as the sum angle + rest of two long doubles; rest is so small that cos and sin are
// linear in it.
bool is_rounded(std::int64_t position, double inv_freq, float cos, float sin, DType dtype) {
  const long double p = static_cast<long double>(position);
  const long double w = inv_freq;
  const long double angle = p * w;
  const long double rest = std::fma(p, w, -angle);
  const long double c = std::cos(angle) - rest * std::sin(angle);
  const long double s = std::sin(angle) + rest * std::cos(angle);
  return std::abs(c - static_cast<long double>(cos)) <= tolerance(cos, dtype) &&
         std::abs(s - static_cast<long double>(sin)) <= tolerance(sin, dtype);
}

}  // namespace

std::int64_t count_far(const Cell& cell, std::int64_t heads, const Table& table,
                       const std::function<double(std::int64_t)>& before, const std::vector<std::byte>& after,
                       const std::function<double(double, double)>& allowed) {
  const bool back = cell.op == Op::backward;
  const std::int64_t pairs = table.pairs();
  const Order order = order_of(cell.pairing, back ? Direction::backward : Direction::forward);
  const auto index = [pairs](bool interleaved, std::int64_t pair, std::int64_t member) {
    return interleaved ? 2 * pair + member : pair + member * pairs;
  };
  std::int64_t far = 0;
  for (std::int64_t row = 0; row < table.tokens() * heads; ++row) {
    const std::int64_t head = row * cell.head_dim;
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const auto at = static_cast<std::size_t>(row / heads * pairs + pair);
      const double cos = static_cast<double>(table.cos()[at]);
      const double sin = (back ? -1 : 1) * static_cast<double>(table.sin()[at]);
      const double a = before(head + index(order.read_interleaved, pair, 0));
      const double b = before(head + index(order.read_interleaved, pair, 1));
      const double rotated[2] = {a * cos - b * sin, b * cos + a * sin};
      for (const std::int64_t member : {0, 1}) {
        const double found = value_at(cell.dtype, after.data(), head + index(order.write_interleaved, pair, member));
        const double off = std::abs(found - rotated[member]);
        far += off <= allowed(std::abs(a) + std::abs(b), rotated[member]) ? 0 : 1;
      }
    }
  }
  return far;
}

std::vector<Row> chosen_rows(const Cell& cell) {
  const std::int64_t count = cell.batch * cell.tokens;
  const std::int64_t each =
      std::max<std::int64_t>(1, max_elements / 3 / ((cell.heads + cell.kv_heads) * cell.head_dim));
  std::vector<Row> rows;
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) rows.push_back({i / cell.tokens, i % cell.tokens});
  };
  if (count <= 3 * each) {
    add(0, count);
  } else {
    for (const std::int64_t begin : {std::int64_t{0}, count / 2, count - each}) add(begin, begin + each);
  }
  return rows;
}

std::vector<std::byte> gather(const Heads& x, const std::vector<Row>& rows, const VerifySteps& steps) {
  const Layout& layout = x.layout;
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  const bool touching = layout.head_stride == layout.head_dim;
  const std::int64_t pieces = touching ? 1 : layout.heads;
  const auto piece_bytes = static_cast<std::size_t>((touching ? layout.heads : 1) * layout.head_dim * size);
  std::vector<std::byte> packed(rows.size() * static_cast<std::size_t>(pieces) * piece_bytes);
  std::byte* to = packed.data();
  for (const Row& row : rows) {
    for (std::int64_t piece = 0; piece < pieces; ++piece, to += piece_bytes) {
      const std::int64_t at =
          row.batch * layout.batch_stride + row.token * layout.token_stride + piece * layout.head_stride;
      if (piece_bytes > 0) steps.read(to, static_cast<const std::byte*>(x.data) + at * size, piece_bytes);
    }
  }
  return packed;
}

Table table_of(const std::vector<Row>& rows, const Table& table) {
  const auto pairs = static_cast<std::size_t>(table.pairs());
  std::vector<float> cos;
  std::vector<float> sin;
  for (const Row& row : rows) {
    const std::size_t at = static_cast<std::size_t>(row.token) * pairs;
    const std::span<const float> c = table.cos().subspan(at, pairs);
    const std::span<const float> s = table.sin().subspan(at, pairs);
    cos.insert(cos.end(), c.begin(), c.end());
    sin.insert(sin.end(), s.begin(), s.end());
  }
  return {cos, sin, table.pairs(), table.pairing()};
}

std::int64_t count_rotated(const Cell& cell, std::int64_t heads, const Table& table,
                           const std::vector<std::byte>& before, const std::vector<std::byte>& after) {
  return cell.with_table ? count_different(cell, heads, table, before, after)
                         : count_far_by_angle(cell, heads, table, before, after);
}

[[noreturn]] void fail(const Cell& cell, const std::string& rule, std::int64_t different, std::int64_t compared) {
  throw Error(Code::CHECK, "[bench] " + std::string(name(cell.op)) + " must " + rule + " but " +
                               std::to_string(different) + " of " + std::to_string(compared) + " differ in " +
                               kind_words(cell) + " " + shape_words(cell) + " by target " + cell.target);
}

std::int64_t verify(const Cell& cell, const Places& places, const Table& table, const std::function<void()>& work) {
  const auto prepare = [&] {
    fill(cell, places);
    if (cell.in_place) return;  // out of place: overwrite what an earlier cell left, which might be the right result
    std::memset(places.q_out.data, 0xee, static_cast<std::size_t>(q_extent(cell)));
    std::memset(places.k_out.data, 0xee, static_cast<std::size_t>(k_extent(cell)));
  };
  return verify(cell, places, table,
                {prepare, work, [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }});
}

std::int64_t verify(const Cell& cell, const Places& places, const Table& table, const VerifySteps& steps) {
  steps.fill();
  const std::vector<Row> rows = chosen_rows(cell);
  const std::vector<std::byte> q = gather(places.q, rows, steps);
  const std::vector<std::byte> k = gather(places.k, rows, steps);
  steps.work();
  const Table part = table_of(rows, table);
  const std::int64_t different = count_rotated(cell, cell.heads, part, q, gather(places.q_out, rows, steps)) +
                                 count_rotated(cell, cell.kv_heads, part, k, gather(places.k_out, rows, steps));
  const std::int64_t compared = static_cast<std::int64_t>(rows.size()) * (cell.heads + cell.kv_heads) * cell.head_dim;
  const char* const rule = cell.with_table ? "equal the reference bit for bit" : "turn by angles within 1.1e-7";
  if (different > 0) fail(cell, rule, different, compared);
  return compared;
}

std::int64_t verify_table(const Cell& cell, const Frequencies& turns, const Table& table) {
  const std::int64_t pairs = table.pairs();
  const std::int64_t max_rows = std::max<std::int64_t>(1, max_pairs / pairs);
  const std::int64_t step = std::max<std::int64_t>(1, table.tokens() / max_rows);
  std::int64_t different = 0;
  std::int64_t compared = 0;
  for (std::int64_t token = table.tokens() - 1; token >= 0; token -= step) {
    for (std::int64_t pair = 0; pair < pairs; ++pair, ++compared) {
      const auto at = static_cast<std::size_t>(token * pairs + pair);
      const double inv_freq = turns.inv_freq[static_cast<std::size_t>(pair)];
      different += is_rounded(token + 1, inv_freq, table.cos()[at], table.sin()[at], cell.dtype) ? 0 : 1;
    }
  }
  if (different > 0) fail(cell, "give correctly rounded angles", different, compared);
  return compared;
}

}  // namespace rotary::cli::bench
