// The rotation without a table against the rows of rotary/device.cuh, whose bounds device_test.cpp proves.

#include "frequencies.h"
#include "rotary/device.cuh"

namespace rotary::tests {
namespace {

// The factors of each pair of each token, [batch, tokens, pairs], by device.cuh on the host.
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

// Whatever the frequencies, the positions, the dtype, layout and direction.
TEST_F(GpuWithoutATable, EqualsTheRotationByTheRowsOfTheDeviceHeaderBitForBit) {
  Random random(8);
  const std::vector<Named> kinds = frequencies_of_all_kinds();
  for (int round = 0; round < 400; ++round) {
    const DType dtype = dtypes[random() % 3];
    const bool own_positions = round % 2 == 0, of_a_kind = round % 4 == 0;
    Frequencies f = kinds[random() % kinds.size()].f;
    if (!of_a_kind) {
      const int pairs = std::array{1, 2, 3, 4, 7, 8, 16, 32, 36, 64, 128}[random() % 11];
      f = geometric(pairs, round % 5 == 0 ? 1e6 : 1.0, 0.9, pairs < 4 ? 1 : 1 + below(random, 4));
      f.clockwise = random() % 4 == 0;
      f.attention_factor = random() % 2 == 0 ? 1 : 0.75;
    }
    const int pairs = f.pairs(), axes = random() % 4 == 0 ? 1 : f.axes();  // one axis serves a rope of several
    const std::int64_t batch = 1 + below(random, 3), tokens = below(random, 6);
    const std::int64_t q_heads = std::array{1, 3, 8, 32}[random() % 4], k_heads = below(random, 3);
    const int head_dim = 2 * pairs + tail(random);
    const gpu::Frequencies on_device(with(f, pairings[random() % 3]));
    const int rows = own_positions ? static_cast<int>(batch) : 1;
    const std::vector<std::int32_t> p = hard_positions32(random, static_cast<std::size_t>(axes * rows * tokens));
    const Device narrow(p, 4), wide(std::vector<std::int64_t>(p.begin(), p.end()));
    const gpu::Positions positions =
        random() % 2 == 0 ? on<std::int32_t>(narrow, tokens, axes, rows) : on<std::int64_t>(wide, tokens, axes, rows);
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
