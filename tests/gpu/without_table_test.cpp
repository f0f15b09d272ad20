// The rotation without a table against the real numbers, and against the rows of rotary/device.cuh.
#include <cmath>
#include <limits>

#include "frequencies.h"
#include "rotary/device.cuh"

namespace rotary::tests {
namespace {

// What each pair of each token is multiplied with, [batch, tokens, pairs]: what (1, -0) becomes, in f32.
Table rows_without_a_table(const gpu::Frequencies& f, const gpu::Positions& p) {
  const auto pairs = static_cast<std::size_t>(f.pairs());
  const std::int64_t rows = p.batch() * p.tokens();
  const bool interleaved = f.pairing() == Pairing::interleaved;
  const bool reads_half = f.pairing() == Pairing::half;
  std::vector<float> x(static_cast<std::size_t>(rows) * 2 * pairs, -0.0f);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (reads_half ? i % (2 * pairs) < pairs : i % 2 == 0) x[i] = 1;
  }
  const Layout layout = bthd(p.batch(), p.tokens(), 1, f.rotary_dim());
  const Device in(x), out(x.size() * sizeof(float));
  gpu::rotate({in.data(), DType::f32, layout}, {out.data(), DType::f32, layout}, gpu::Rotation(f, p));
  const Bytes bytes = out.get();
  std::memcpy(x.data(), bytes.data(), bytes.size());
  std::vector<float> cos, sin;
  for (std::size_t at = 0; at < x.size(); at += 2 * pairs) {
    for (std::size_t i = 0; i < pairs; ++i) {
      cos.push_back(x[at + (interleaved ? 2 * i : i)]);
      sin.push_back(x[at + (interleaved ? 2 * i + 1 : pairs + i)]);
    }
  }
  return Table(cos, sin, f.pairs(), f.pairing(), p.batch());
}

// The same as device.cuh says them: here, on the host.
Table rows_of_the_device_header(const Frequencies& f, Pairing pairing, const std::vector<std::int32_t>& p, int axes,
                                int batch) {
  const std::size_t pairs = f.inv_freq.size(), rows = p.size() / static_cast<std::size_t>(axes);
  const auto factor = static_cast<float>(f.attention_factor);
  std::vector<float> cos, sin;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < pairs; ++i) {
      const std::size_t axis = axes > 1 ? f.axis[i] : 0;
      const device::CosSin by = device::cos_sin(p[axis * rows + row], device::turns_of(f.inv_freq[i]));
      cos.push_back(factor * by.cos);
      sin.push_back(f.clockwise ? -(factor * by.sin) : factor * by.sin);
    }
  }
  return Table(cos, sin, static_cast<int>(pairs), pairing, batch);
}

std::vector<std::int32_t> hard_positions32(Random& random, std::size_t count) {
  std::vector<std::int32_t> p{0, 1, -1, least32, most32, least32 + 1, most32 - 1, 1 << 30, 65536, 4095};
  while (p.size() < count) p.push_back(static_cast<std::int32_t>(random() >> 32) >> (random() % 32));
  p.resize(count);
  return p;
}

class GpuWithoutATable : public Gpu {};

TEST_F(GpuWithoutATable, TheTurnsOfThePairsAreThoseOfTheDeviceHeader) {
  for (const auto& [name, f] : frequencies_of_all_kinds()) {
    const gpu::Frequencies on_device(with(f, Pairing::half));
    std::vector<std::uint64_t> turns(f.inv_freq.size());
    check(cudaMemcpy(turns.data(), on_device.turns(), turns.size() * 8, cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < turns.size(); ++i) EXPECT_EQ(turns[i], device::turns_of(f.inv_freq[i])) << name << i;
  }
}

TEST_F(GpuWithoutATable, CosAndSinAreWithinTheirBoundAtAnyInt32Position) {
  Random random(6);
  for (const auto& [name, f] : frequencies_of_all_kinds()) {
    if (name == "fast") continue;  // beyond what long double judges; below
    SCOPED_TRACE(name);
    const std::vector<std::int32_t> p = hard_positions32(random, 300);
    const Device d(p);
    const gpu::Frequencies on_device(with(f, pairings[random() % 3]));
    const Table rows = rows_without_a_table(on_device, on<std::int32_t>(d, 300));
    const auto factor = static_cast<long double>(f.attention_factor);
    // A factor that is no power of two is rounded, and the product is.
    int exponent = 0;
    const bool exact = std::fabs(std::frexp(f.attention_factor, &exponent)) == 0.5;
    const long double bound = (exact ? 1.1e-7L : 1.1e-7L + 0x1p-23L) * std::fabs(factor) + 1e-45L;
    for (std::size_t i = 0; i < rows.cos().size(); ++i) {
      const std::size_t pairs = f.inv_freq.size();
      const long double angle =
          static_cast<long double>(p[i / pairs]) * static_cast<long double>(f.inv_freq[i % pairs]);
      const long double sine = f.clockwise ? -std::sin(angle) : std::sin(angle);
      ASSERT_LE(std::fabs(static_cast<long double>(rows.cos()[i]) - factor * std::cos(angle)), bound)
          << "cos at position " << p[i / pairs] << " of pair " << i % pairs;
      ASSERT_LE(std::fabs(static_cast<long double>(rows.sin()[i]) - factor * sine), bound)
          << "sin at position " << p[i / pairs] << " of pair " << i % pairs;
    }
  }
}

// The same bound against rows that are correctly rounded, whose own error is half an ulp.
TEST_F(GpuWithoutATable, StaysNearTheExactRowsWithSeveralAxesAndFastPairs) {
  Random random(7);
  for (const int axes : {1, 2, 3, 4}) {
    Frequencies f = made(48, 1e6, 0.5, axes);
    f.attention_factor = 1.25;
    const std::vector<std::int32_t> p32 = hard_positions32(random, static_cast<std::size_t>(axes) * 2 * 50);
    const std::vector<std::int64_t> p(p32.begin(), p32.end());
    const Device d32(p32), d64(p);
    const gpu::Frequencies on_device(with(f, pairings[random() % 3]));
    const Table rows = rows_without_a_table(on_device, on<std::int32_t>(d32, 50, axes, 2));
    const Table exact(with(f, on_device.pairing()), Positions(p, axes, 2));
    for (std::size_t i = 0; i < rows.cos().size(); ++i) {
      ASSERT_NEAR(rows.cos()[i], exact.cos()[i], 1.25 * (1.1e-7 + 0x1p-23 + 6e-8)) << axes << " axes, " << i;
      ASSERT_NEAR(rows.sin()[i], exact.sin()[i], 1.25 * (1.1e-7 + 0x1p-23 + 6e-8)) << axes << " axes, " << i;
    }
    EXPECT_TRUE(same_rows(rows_without_a_table(on_device, on<std::int64_t>(d64, 50, axes, 2)), rows)) << "int64";
    EXPECT_TRUE(same_rows(rows_without_a_table(on_device, on<std::int32_t>(d32, 50)),
                          rows_without_a_table(on_device, on<std::int64_t>(d64, 50))))
        << "one axis serves a rope of several";
  }
}

// Whatever the dtype, layout and direction.
TEST_F(GpuWithoutATable, EqualsTheRotationByTheRowsOfTheDeviceHeaderBitForBit) {
  Random random(8);
  for (int round = 0; round < 400; ++round) {
    const DType dtype = dtypes[random() % 3];
    const int pairs = std::array{1, 2, 3, 4, 7, 8, 16, 32, 36, 64, 128}[random() % 11];
    const int axes = pairs < 4 ? 1 : 1 + below(random, 3);
    const bool own_positions = round % 2 == 0;
    const std::int64_t batch = 1 + below(random, 3), tokens = below(random, 6);
    const std::int64_t q_heads = std::array{1, 3, 8, 32}[random() % 4], k_heads = below(random, 3);
    const int head_dim = 2 * pairs + tail(random);
    Frequencies f = made(pairs, 1.0, 0.9, axes);
    f.clockwise = random() % 4 == 0;
    f.attention_factor = random() % 2 == 0 ? 1 : 0.75;
    const gpu::Frequencies on_device(with(f, pairings[random() % 3]));
    const int rows = own_positions ? static_cast<int>(batch) : 1;
    const std::vector<std::int32_t> p = hard_positions32(random, static_cast<std::size_t>(axes * rows * tokens));
    const Device d(p, 4);
    const gpu::Positions positions = on<std::int32_t>(d, tokens, axes, rows);
    const gpu::Table table = upload(rows_of_the_device_header(f, on_device.pairing(), p, axes, rows));
    const gpu::Rotation without(on_device, positions);
    EXPECT_EQ(without.tokens(), tokens);
    EXPECT_EQ(without.pairs(), pairs);

    const Layout q = random_layout(random, batch, tokens, q_heads, head_dim);
    const Layout k = random_layout(random, batch, tokens, k_heads, head_dim);
    const Bytes q_values = hard_values(random, dtype, extent(q)), k_values = hard_values(random, dtype, extent(k));
    const int at = misalignment(random);
    const Device q1 = device_for(q, dtype, q_values, at), k1 = device_for(k, dtype, k_values, at);
    const Device q2 = device_for(q, dtype, q_values, at), k2 = device_for(k, dtype, k_values, at);
    const Direction direction = random() % 2 == 0 ? Direction::backward : Direction::forward;
    order_threads(random);
    const auto rotate_both = [&](const Device& a, const Device& b, const gpu::Rotation& by) {
      gpu::rotate_qk(Heads{a.data(), dtype, q}, Heads{b.data(), dtype, k}, by, direction);
    };
    rotate_both(q1, k1, without);
    rotate_both(q2, k2, table);
    ASSERT_TRUE(same(q1.get().data(), q2.get().data(), dtype, extent(q), rotated_elements(q, 2 * pairs))) << round;
    ASSERT_TRUE(same(k1.get().data(), k2.get().data(), dtype, extent(k), rotated_elements(k, 2 * pairs))) << round;
  }
}

}  // namespace
}  // namespace rotary::tests
