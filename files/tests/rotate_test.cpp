// rotate_qk by a ModelRope equals rotate_qk by its Rope (core/tests/api_test.cpp, c_test.cpp) on the elements from
// `first` on.
#include <numeric>
#include <vector>

#include "files/tests/config_helpers.h"

namespace rotary {
namespace {

TEST(RotateModel, RotatesTheBlockThatBeginsAtFirst) {
  ModelRope used;  // elements on both sides stand still
  used.first = 6;
  used.rope = {.head_dim = 20,
               .rotary_dim = 8,
               .base = 100,
               .pairing = Pairing::interleaved,
               .scaling = Dynamic{.factor = 4, .trained_length = 16}};
  std::vector<float> q(3 * 4 * 20), k(3 * 2 * 20);
  std::iota(q.begin(), q.end(), -50.5F);
  std::iota(k.begin(), k.end(), 7.25F);
  const std::vector<float> before = q;
  std::vector<float> wanted_q = q, wanted_k = k;
  const auto of_q = [](std::vector<float>& x) { return heads(x, thd(3, 4, 20)); };
  const auto of_k = [](std::vector<float>& x) { return heads(x, thd(3, 2, 20)); };
  RotateOptions options{.direction = Direction::backward};
  rotate_qk(of_q(q), of_k(k), used, 64, options);
  options.first = 6;
  rotate_qk(of_q(wanted_q), of_k(wanted_k), used.rope, 64, options);
  EXPECT_EQ(q, wanted_q);
  EXPECT_EQ(k, wanted_k);
  EXPECT_NE(q, before);
}

}  // namespace
}  // namespace rotary
