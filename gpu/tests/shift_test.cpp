// Keys that move on the device, as they do on the host, bit for bit: tables between two ropes, and the shift of a
// cache.
#include "core/tests/support/caches.h"
#include "core/tests/support/checks.h"
#include "frequencies.h"

namespace rotary::tests {
namespace {

class GpuBetween : public Gpu {};

template <class From, class To>
void expect_host_rows(const Frequencies& from, const std::vector<From>& p, int p_axes, int p_batch,
                      const Frequencies& to, const std::vector<To>& q, int q_axes, int q_batch, Rounding rounding) {
  const Table wanted =
      between(from, Positions(p, p_axes, p_batch), to, Positions(q, q_axes, q_batch), {Angles::exact, rounding});
  const gpu::Frequencies from_there(from), to_there(to);
  const Device p_there(p), q_there(q);
  const gpu::Table got = gpu::between(from_there, on<From>(p_there, wanted.tokens(), p_axes, p_batch), to_there,
                                      on<To>(q_there, wanted.tokens(), q_axes, q_batch), {Angles::exact, rounding});
  EXPECT_TRUE(same_rows(got.host(), wanted));
}

TEST_F(GpuBetween, HasTheRowsOfTheHost) {
  Random random(1);
  for (const auto& [name, f] : frequencies_of_all_kinds()) {
    if (f.attention_factor == 0 || name == "slow") continue;  // no ratio; frequencies below 2^-256 are refused
    SCOPED_TRACE(name);
    Frequencies from = with(f, pairings[random() % 2]), other = from;
    for (double& w : other.inv_freq) w *= 0.75;
    other.attention_factor *= 1.25;
    std::vector<std::int64_t> p{0, 1, -1, 5, largest, lowest, 1 << 20, 77}, q{0, 2, -1, 4, largest - 3, 9, 1 << 21, 77};
    const std::vector<std::int32_t> near{0, 3, -1, 5, 7, most32, least32, 78};
    std::vector<double> real{0.0, -0.0, 0.5, -1.0 / 3, 1e18, 3e-9, 8191, 77};
    order_threads(random);
    expect_host_rows(from, p, 1, 1, from, q, 1, 1, roundings[random() % 3]);
    expect_host_rows(from, p, 1, 1, other, near, 1, 1, roundings[random() % 3]);
    expect_host_rows(other, real, 1, 1, from, real, 1, 1, roundings[random() % 3]);
    expect_host_rows(from, p, 1, 2, from, std::vector<std::int64_t>(q.begin(), q.begin() + 4), 1, 1, Rounding::f32);
  }
  const Frequencies axes = with(geometric(9, 1.0, 0.5, 3), Pairing::half);
  expect_host_rows(axes, std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}, 3, 1, axes, std::vector<std::int64_t>{8, 9}, 1, 1,
                   Rounding::f32);
}

TEST_F(GpuBetween, RefusesWhatTheHostRefusesAndGivesNaNWhereAPositionIsNone) {
  const Frequencies f = with(geometric(4, 1.0, 0.5), Pairing::half);
  const gpu::Frequencies half(f), other(with(f, Pairing::interleaved)),
      fewer(with(geometric(3, 1.0, 0.5), Pairing::half));
  const Device p(std::vector<double>{1, std::numeric_limits<double>::infinity(), 0x1p-65});
  const auto at = on<double>(p, 3);
  expect_error("PAIRING", "[between] from and to must leave keys in one order but are half and interleaved",
               [&] { gpu::between(half, at, other, at); });
  expect_error("SHAPE", "[between] from and to must have the same number of pairs but have 4 and 3",
               [&] { gpu::between(half, at, fewer, at); });
  expect_error("VALUE", "[between] angles must be exact but got float32",
               [&] { gpu::between(half, at, half, at, Angles::float32); });
  Frequencies sums = f;
  sums.summed_axes = 1;
  const gpu::Frequencies summed(sums);
  expect_error_with("SHAPE", "sums of axes", [&] { gpu::between(summed, at, summed, at); });
  const Table table = gpu::between(half, at, half, at).host();
  EXPECT_EQ(table.cos()[0], 1);
  for (const std::size_t row : {std::size_t{1}, std::size_t{2}}) EXPECT_NE(table.cos()[4 * row], table.cos()[4 * row]);
}

class GpuShift : public Gpu {};

// Keys or values, on the host and on the device.
struct Side {
  Side(Random& random, std::int64_t pages, std::int64_t page_size, std::int64_t heads, int head_dim)
      : dtype(dtypes[random() % 3]),
        layout(random_layout(random, pages, page_size, heads, head_dim)),
        memory(hard_values(random, dtype, extent(layout))),
        there(device_for(layout, dtype, memory, misalignment(random))) {}
  Heads host() { return {memory.data(), dtype, layout}; }
  Heads device() const { return {there.data(), dtype, layout}; }
  ::testing::AssertionResult is_the_host(int loose) const {
    return same(there.get().data(), memory.data(), dtype, extent(layout), rotated_elements(layout, loose));
  }
  DType dtype;
  Layout layout;
  Bytes memory;
  Device there;
};

TEST_F(GpuShift, HasTheBitsOfTheHostWhateverTheCall) {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    const int pages = 1 + below(random, 6), page_size = std::array{1, 3, 4, 16, 40}[random() % 5];
    const int pairs = 1 + below(random, 40), head_dim = 2 * pairs + tail(random);
    Side k(random, pages, page_size, 1 + below(random, 4), head_dim),
        v(random, pages, page_size, 1 + below(random, 3), 1 + below(random, 70));
    const Table table = random_table_of_heads(random, 1, pairs, pairings[random() % 2], 1, k.layout.heads);
    const std::int64_t keep = below(random, 5), drop = std::array{0, 1, 2, 1 + below(random, 20), 300}[random() % 5];
    SCOPED_TRACE(::testing::Message() << round << ": keep " << keep << ", drop " << drop << ", "
                                      << words(k.layout, k.dtype));
    const RandomSequences here(random, pages, page_size);
    const Device indices(here.indices, 4), indptr(here.indptr, 4), lengths(here.lengths, 4);
    const auto i32 = [](const Device& d) { return d.as<const std::int32_t>(); };
    gpu::Sequences there;
    if (here.kind == 1) there = gpu::Sequences::each_row(i32(lengths));
    if (here.kind == 2) there = gpu::Sequences::paged(i32(indptr), i32(indices), i32(lengths), 3);
    order_threads(random);
    shift(k.host(), v.host(), table, keep, drop, here.host());
    gpu::shift(k.device(), v.device(), lvalue(upload(table)), keep, drop, there);
    ASSERT_TRUE(k.is_the_host(2 * pairs)) << "keys";
    ASSERT_TRUE(v.is_the_host(0)) << "values";
  }
}

TEST_F(GpuShift, RefusesWhatTheHostRefuses) {
  const Device memory{65536};
  const Layout l = bthd(2, 8, 2, 16);
  const Heads k{memory.data(), DType::f32, l}, v{memory.data() + 4096, DType::f32, l};
  const gpu::Table table = upload(table_of(1, 8)), two = upload(table_of(2, 8)),
                   across = upload(table_of(1, 8, 1, Pairing::interleaved_to_half));
  expect_error("SHAPE", "[shift] the table must have one row but got 1 times 2", [&] { gpu::shift(k, v, two, 0, 1); });
  expect_error("SHAPE", "[shift] keep and drop must not be negative but got -1 and 1",
               [&] { gpu::shift(k, v, table, -1, 1); });
  expect_error("SHAPE", "[shift] v must have no elements where k has none but got [2, 8, 2, 16]", [&] {
    gpu::shift({nullptr, DType::f32, bthd(2, 8, 0, 16)}, v, table, 0, 1);
  });
  expect_error("PAIRING", "[shift] the table must be half or interleaved but is interleaved_to_half",
               [&] { gpu::shift(k, v, across, 0, 1); });
  expect_error("ALIAS",
               "[shift] what is written to k must not overlap v but their elements overlap, or interleave with strides "
               "that are not the same",
               [&] { gpu::shift(k, k, table, 0, 1); });
}

}  // namespace
}  // namespace rotary::tests
