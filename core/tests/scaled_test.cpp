// Queries that are multiplied by a factor each, against the slow way: element by element, in f32, rounded once.
#include <gtest/gtest.h>

#include <limits>

#include "core/tests/support/checks.h"
#include "core/tests/support/heads.h"
#include "core/tests/support/oracle.h"
#include "rotary/query_scale.h"
#include "rotary/reference.h"

namespace rotary::tests {
namespace {

using oracle::narrow, oracle::offset, oracle::widen;

// The header's rule, slowly: rotated elements by the reference from rows times their token's factor, other elements
// times that factor. `written` has the layout `to`.
void scale_slowly(const Bytes& from, const Layout& l, Bytes& written, const Layout& to, DType dtype, const Table& table,
                  int first, Direction direction, const std::vector<float>& scale) {
  const auto n = static_cast<std::size_t>(table.pairs()), tokens = static_cast<std::size_t>(l.tokens);
  std::vector<float> cos, sin;
  for (std::size_t row = 0; row < static_cast<std::size_t>(l.batch) * tokens; ++row) {
    const std::size_t at = (table.batch() == 1 ? row % tokens : row) * n;
    for (std::size_t k = at; k < at + n; ++k) {
      cos.push_back(table.cos()[k] * scale[row % scale.size()]);
      sin.push_back(table.sin()[k] * scale[row % scale.size()]);
    }
  }
  const Table scaled(cos, sin, table.pairs(), table.pairing(), static_cast<int>(l.batch));
  reference::rotate(slice(ConstHeads(from.data(), dtype, l), first, 2 * table.pairs()),
                    slice(Heads{written.data(), dtype, to}, first, 2 * table.pairs()), scaled, direction);
  for (std::int64_t i = 0; i < l.batch * l.tokens * l.heads; ++i) {
    const std::int64_t h = i % l.heads, t = i / l.heads % l.tokens, b = i / l.heads / l.tokens;
    const float s = scale[static_cast<std::size_t>(b * l.tokens + t) % scale.size()];
    for (int d = 0; d < l.head_dim; ++d) {
      if (d >= first && d < first + 2 * table.pairs()) continue;
      const float x = widen(bits_at(from.data(), dtype, offset(l, b, t, h) + d), dtype);
      set_bits(written.data(), dtype, offset(to, b, t, h) + d, narrow(x * s, dtype));
    }
  }
}

class ScaledQueries : public ::testing::TestWithParam<GridPoint> {};

TEST_P(ScaledQueries, equal_the_slow_way) {
  const auto [dtype, pairing, direction] = GetParam();
  Random random(23);
  for (int round = 0; round < 48; ++round) {
    const bool in_place = round % 2 == 0, of_batch = round % 3 == 0;
    const int pairs = 1 + below(random, 9), first = below(random, 3), rest = below(random, 3);
    const int batch = 1 + below(random, 2);
    const Layout sizes{batch, 3, 2, 2 * pairs + first + rest, 0, 0, 0};
    const Layout l = nested_layout(random, sizes, false), to = in_place ? l : nested_layout(random, sizes, false);
    const Table table = random_table(random, 3, pairs, pairing, below(random, 2) == 0 ? 1 : batch);
    std::vector<float> scale(static_cast<std::size_t>(of_batch ? 3 * batch : 3));
    for (float& s : scale) s = 1 + 0.001F * static_cast<float>(below(random, 900));
    Bytes q = hard_values(random, dtype, extent(l)), k = hard_values(random, dtype, extent(l));
    Bytes q_out = in_place ? q : patterned(bytes_of(to, dtype)), k_out = in_place ? k : patterned(bytes_of(to, dtype));
    Bytes wanted = q_out, k_wanted = k_out;
    scale_slowly(q, l, wanted, to, dtype, table, first, direction, scale);
    const RotateOptions options{.direction = direction, .first = first};
    rotate({in_place ? k_wanted.data() : k.data(), dtype, l}, Heads{k_wanted.data(), dtype, to}, table, options);
    const Heads of_q{q_out.data(), dtype, to}, of_k{k_out.data(), dtype, to};
    if (in_place) {
      rotate_qk(of_q, of_k, table, options, scale);
    } else {
      rotate_qk(InOut{{q.data(), dtype, l}, of_q}, InOut{{k.data(), dtype, l}, of_k}, table, options, scale);
    }
    const std::vector<bool> all(static_cast<std::size_t>(extent(to)), true);
    EXPECT_TRUE(same(q_out.data(), wanted.data(), dtype, extent(to), all)) << "q, round " << round;
    EXPECT_TRUE(same(k_out.data(), k_wanted.data(), dtype, extent(to), all)) << "k, round " << round;
  }
}
INSTANTIATE_TEST_SUITE_P(All, ScaledQueries, grid, grid_name);

TEST(ScaledQueriesOf, layers_without_rope_and_ones) {
  Random random(5);
  for (const DType dtype : dtypes) {
    const Layout l = bhtd(2, 3, 4, 6);
    Bytes q = hard_values(random, dtype, extent(l)), wanted = q;
    const std::vector<float> scale = {1, 1.5F, -2, 0.1F};
    for (std::int64_t i = 0; i < extent(l); ++i) {
      const float x = widen(bits_at(q.data(), dtype, i), dtype);
      set_bits(wanted.data(), dtype, i, narrow(x * scale[static_cast<std::size_t>(i / 6 % 4)], dtype));
    }
    multiply({q.data(), dtype, l}, scale);
    const std::vector<bool> all(static_cast<std::size_t>(extent(l)), true);
    EXPECT_TRUE(same(q.data(), wanted.data(), dtype, extent(l), all));
  }
}

TEST(ScaledQueriesOf, tables_with_rows_per_head_are_twice_as_long_by_factors_of_two) {
  const Rope rope{.head_dim = 4, .pairing = Pairing::half, .inv_freq = {1, 2, 3, 4}, .head_rows = 2};
  const Table table(frequencies(rope), positions(1, 3));
  std::vector<float> q = counted(24), wanted = q;
  rotate(heads(q, bthd(1, 3, 2, 4)), table, {}, std::vector<float>(3, 2));
  rotate(heads(wanted, bthd(1, 3, 2, 4)), table);
  for (float& x : wanted) x *= 2;
  EXPECT_EQ(q, wanted);
}

TEST(ScaledQueriesOf, a_wrong_size_or_number_is_refused_and_nothing_written) {
  std::vector<float> q(2 * 3 * 4, 1), k = q;
  const Heads of_q = heads(q, bthd(1, 3, 2, 4)), of_k = heads(k, bthd(1, 3, 2, 4));
  const Table table(frequencies(Rope{.head_dim = 4, .pairing = Pairing::half}), positions(1, 3));
  const auto code = [&](std::vector<float> scale) { return code_of([&] { rotate_qk(of_q, of_k, table, {}, scale); }); };
  EXPECT_EQ(code({1, 1}), Code::SHAPE);
  EXPECT_EQ(code({1, 1, std::numeric_limits<float>::infinity()}), Code::VALUE);
  EXPECT_EQ(code_of([] { multiply({nullptr, DType::f32, {.tokens = -1, .head_dim = 4}}, {}); }), Code::SHAPE);
  EXPECT_EQ(code_of([&] { multiply(of_q, {}, {.first = 1}); }), Code::SHAPE);
  EXPECT_EQ(q, std::vector<float>(24, 1));
  EXPECT_EQ(k, q);
}

}  // namespace
}  // namespace rotary::tests
