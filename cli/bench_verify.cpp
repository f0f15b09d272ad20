#include "bench_verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "rotary/reference.h"

namespace rotary::cli::bench {

namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 17;  // the reference is slow
constexpr std::int64_t most_pairs = std::int64_t{1} << 14;

struct Row {
  std::int64_t batch;
  std::int64_t token;
};

// All rows, or as many from the beginning, the middle and the end.
std::vector<Row> chosen_rows(const Cell& cell) {
  const std::int64_t count = cell.batch * cell.tokens;
  const std::int64_t each =
      std::max<std::int64_t>(1, most_elements / 3 / ((cell.heads + cell.kv_heads) * cell.head_dim));
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

Layout packed_layout(const std::vector<Row>& rows, const Layout& layout) {
  return thd(static_cast<std::int64_t>(rows.size()), layout.heads, layout.head_dim);
}

// The heads of those rows, one behind the other.
std::vector<std::byte> gather(const Heads& x, const std::vector<Row>& rows) {
  const Layout& layout = x.layout;
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  const auto head_bytes = static_cast<std::size_t>(layout.head_dim * size);
  std::vector<std::byte> packed(rows.size() * static_cast<std::size_t>(layout.heads) * head_bytes);
  std::byte* to = packed.data();
  for (const Row& row : rows) {
    for (std::int64_t head = 0; head < layout.heads; ++head, to += head_bytes) {
      const std::int64_t at =
          row.batch * layout.batch_stride + row.token * layout.token_stride + head * layout.head_stride;
      std::memcpy(to, static_cast<const std::byte*>(x.data) + at * size, head_bytes);
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

// Elements of `after` that are not what the reference makes of `before`.
std::int64_t count_different(const Cell& cell, const Layout& layout, const Table& table,
                             const std::vector<std::byte>& before, const std::vector<std::byte>& after) {
  std::vector<std::byte> expected(before.size());
  const auto verb = cell.op == Op::backward ? reference::rotate_backward : reference::rotate;
  verb(ConstHeads(before.data(), cell.dtype, layout), Heads{expected.data(), cell.dtype, layout}, table,
       Rounding::once);
  const std::size_t size = size_of(cell.dtype);
  std::int64_t different = 0;
  for (std::size_t at = 0; at < before.size(); at += size) {
    different += std::memcmp(expected.data() + at, after.data() + at, size) == 0 ? 0 : 1;
  }
  return different;
}

// How far a correctly rounded value of f32, or that value rounded once more to dtype, may be from the true one; with a
// little more for this check's own error.
long double tolerance(float value, DType dtype) {
  const float magnitude = std::abs(value);
  const auto spacing = static_cast<long double>(std::nextafter(magnitude, 2.0F)) - static_cast<long double>(magnitude);
  const long double once = (0.5L + 0x1p-16L) * spacing;
  switch (dtype) {
    case DType::f16:
      return once + 0.5L * std::max(0x1p13L * spacing, 0x1p-24L);
    case DType::bf16:
      return once + 0.5L * 0x1p16L * spacing;
    default:
      return once;
  }
}

// position * inv_freq is exact as the sum of two long doubles; the second one is too small to bend the curve.
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

[[noreturn]] void fail(const Cell& cell, const std::string& rule, std::int64_t different, std::int64_t compared) {
  throw Error("CHECK", "[bench] " + std::string(name(cell.op)) + " must " + rule + " but " + std::to_string(different) +
                           " of " + std::to_string(compared) + " differ in " + kind_words(cell) + " " +
                           shape_words(cell) + " by target " + cell.target);
}

}  // namespace

std::int64_t verify(const Cell& cell, const Places& places, const Table& table, const std::function<void()>& work) {
  fill(cell, places);
  const std::vector<Row> rows = chosen_rows(cell);
  const std::vector<std::byte> q = gather(places.q, rows);
  const std::vector<std::byte> k = gather(places.k, rows);
  if (!cell.in_place) {  // what an earlier cell left there might be right
    std::memset(places.q_out.data, 0xee, static_cast<std::size_t>(q_extent(cell)));
    std::memset(places.k_out.data, 0xee, static_cast<std::size_t>(k_extent(cell)));
  }
  work();
  const Table part = table_of(rows, table);
  const std::int64_t different =
      count_different(cell, packed_layout(rows, places.q.layout), part, q, gather(places.q_out, rows)) +
      count_different(cell, packed_layout(rows, places.k.layout), part, k, gather(places.k_out, rows));
  const std::int64_t compared = static_cast<std::int64_t>(rows.size()) * (cell.heads + cell.kv_heads) * cell.head_dim;
  if (different > 0) fail(cell, "equal the reference bit for bit", different, compared);
  return compared;
}

std::int64_t verify_table(const Cell& cell, const Frequencies& turns, const Table& table) {
  const std::int64_t pairs = table.pairs();
  const std::int64_t most_rows = std::max<std::int64_t>(1, most_pairs / pairs);
  const std::int64_t step = std::max<std::int64_t>(1, table.tokens() / most_rows);
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
