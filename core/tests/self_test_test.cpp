#include "rotary/self_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "core/tests/support/outcome.h"
#include "cpu/targets.h"
#include "rotary/targets.h"
#include "table/angle_job.h"

namespace rotary {
namespace {

TEST(SelfTest, PassesAndLeavesTheTargetAndMayBeCalledByManyThreads) {
  for (const Target& target : targets()) {
    if (!target.runs) continue;
    use_target(target.name);
    EXPECT_NO_THROW(self_test());
    EXPECT_EQ(chosen_target(), target.name);
  }
  use_target("");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([] { EXPECT_NO_THROW(self_test()); });
  for (std::thread& thread : threads) thread.join();
}

// ---- it refuses a kernel that computes one bit wrong ---------------------------------------------

const cpu::Kernels* right;
void angles_with_a_wrong_bit(const detail::AngleJob& job, std::int64_t begin, std::int64_t end) noexcept {
  right->angles(job, begin, end);
  job.sin[7] = std::nextafter(job.sin[7], 2.0f);
}
void rotate_with_a_wrong_bit(const detail::Job& job, std::int64_t begin, std::int64_t end) noexcept {
  right->rotate(job, begin, end);
  static_cast<unsigned char*>(job.out)[0] ^= 1;
}
void rotate_bf16_with_a_wrong_bit(const detail::Job& job, std::int64_t begin, std::int64_t end) noexcept {
  right->rotate(job, begin, end);
  if (job.dtype == DType::bf16) static_cast<unsigned char*>(job.out)[0] ^= 1;
}

std::string refusal(const cpu::Kernels& kernels) {
  return tests::outcome_of([&] { detail::self_test_of(kernels); }).text();
}

TEST(SelfTest, RefusesAKernelThatIsOffByOneBit) {
  right = &cpu::chosen();
  cpu::Kernels kernels = *right;
  kernels.name = "broken";
  EXPECT_NO_THROW(detail::self_test_of(kernels));
  kernels.angles = angles_with_a_wrong_bit;
  EXPECT_TRUE(refusal(kernels).starts_with(
      "CHECK: [self_test] tables with target broken must hash to 61d104d3700dead7 but got "));
  kernels.angles = right->angles;
  kernels.rotate = rotate_with_a_wrong_bit;
  EXPECT_TRUE(refusal(kernels).starts_with("CHECK: [self_test] rotations of f32 with target broken must hash to "));
  kernels.rotate = rotate_bf16_with_a_wrong_bit;
  EXPECT_TRUE(refusal(kernels).starts_with("CHECK: [self_test] rotations of bf16 with target broken must hash to "));
  EXPECT_NE(refusal(kernels).find("-ffp-contract=off"), std::string::npos);
}

}  // namespace
}  // namespace rotary
