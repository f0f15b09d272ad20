// rotary::gpu as it is without CUDA: empty values, and one error for everything else.
#include <vector>

#include "core/tests/support/checks.h"
#include "rotary/gpu.h"

namespace rotary::tests {
namespace {

TEST(GpuAbsent, SaysSo) {
  EXPECT_FALSE(gpu::built());
  EXPECT_EQ(gpu::devices(), 0);
}

TEST(GpuAbsent, RefusesWithOneSentence) {
  const char* const sentence = "[gpu] rotary was built without CUDA: build it with -DROTARY_CUDA=ON";
  std::vector<float> x(64);
  const Heads heads{x.data(), DType::f32, thd(2, 2, 16)};
  const gpu::Table none;
  gpu::Table table;
  const auto refuses = [&](const auto& call) { expect_error("CUDA", sentence, call); };
  refuses([&] { gpu::device_name(); });
  refuses([&] { gpu::synchronize(); });
  refuses([&] { gpu::Frequencies(rotary::Frequencies{.inv_freq = {1.0, 0.5}, .pairing = Pairing::half}); });
  refuses([&] { gpu::Table(x, x, 8, Pairing::half); });
  refuses([&] { gpu::Table::borrow(x.data(), x.data(), 8, Pairing::half, 2); });
  refuses([&] { gpu::Table::borrow(nullptr, nullptr, 8, Pairing::half, 0); });
  refuses([&] { table.reserve(1, 1); });
  refuses([&] { none.host(); });
  refuses([&] { gpu::rotate(heads, none); });
  refuses([&] { gpu::rotate_qk(heads, heads, none); });
  refuses([&] { gpu::rotate_qk({heads, heads}, {heads, heads}, none); });
  refuses([&] { gpu::rotate(heads, heads, none); });
  refuses([&] { gpu::rms_norm(heads, heads, {}); });
  refuses([&] { gpu::append(heads, heads, {}, {}); });
  refuses([&] { gpu::rotate_append(heads, heads, heads, heads, none, {}, {}); });
  refuses([&] { gpu::shift(heads, heads, none, 0, 1); });
  refuses([&] { gpu::norm_rotate_append(heads, 1, heads, {}, {}, none, {}, {}); });
}

TEST(GpuAbsent, LetsDescriptionsBe) {
  const gpu::Cache cache = gpu::hnd(nullptr, nullptr, 4, 16, 8, 128);
  EXPECT_EQ(cache.page_stride, 16 * 8 * 128);
  EXPECT_EQ(cache.head_stride, 16 * 128);
  EXPECT_EQ(gpu::nhd(nullptr, nullptr, 4, 16, 8, 128).token_stride, 8 * 128);
  const std::int64_t p[2] = {};
  EXPECT_EQ(gpu::Positions(p, 2).tokens(), 2);
  EXPECT_EQ(gpu::Slots::flat(p).slot, p);
  EXPECT_EQ(gpu::Slots::paged(nullptr, nullptr, nullptr, nullptr, 3).sequences, 3);
  gpu::Table table;
  gpu::Table other = std::move(table);
  EXPECT_EQ(other.tokens(), 0);
  EXPECT_EQ(gpu::Rotation(other).tokens(), 0);
}

}  // namespace
}  // namespace rotary::tests
