// rotate_qk by a ModelRope: the block that begins at `first`, in one call.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/config_helpers.h"
#include "tests/support/file_helpers.h"

namespace rotary {
namespace {

using config_test::only;
using test::expect_error;

constexpr std::int64_t tokens = 3, q_heads = 4, k_heads = 2;

std::vector<float> some_values(std::int64_t heads, int head_dim, float seed) {
  std::vector<float> x(static_cast<std::size_t>(tokens * heads * head_dim));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = seed + static_cast<float>(i * 37 % 101) / 64;
  return x;
}

struct QK {
  explicit QK(int width)
      : head_dim(width), q(some_values(q_heads, width, -0.5F)), k(some_values(k_heads, width, 0.25F)) {}
  Heads heads_of_q() { return heads(q, thd(tokens, q_heads, head_dim)); }
  Heads heads_of_k() { return heads(k, thd(tokens, k_heads, head_dim)); }
  int head_dim;
  std::vector<float> q, k;
};

// The same by hand: frequencies of that length, a table, slices.
void rotate_by_hand(QK& x, const ModelRope& used, std::int64_t first_position, Direction direction) {
  const Table table(frequencies(used.rope, first_position + tokens), positions(first_position, tokens));
  rotate(slice(x.heads_of_q(), used.first, used.rope.rotary_dim), table, direction);
  rotate(slice(x.heads_of_k(), used.first, used.rope.rotary_dim), table, direction);
}

void expect_by_hand(const ModelRope& used) {
  const ThreadPool pool(2);
  for (const std::int64_t first_position : {std::int64_t{0}, std::int64_t{7}, std::int64_t{200000}}) {
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      QK wanted(used.rope.head_dim), got(used.rope.head_dim), untouched(used.rope.head_dim);
      rotate_by_hand(wanted, used, first_position, direction);
      rotate_qk(got.heads_of_q(), got.heads_of_k(), used, first_position, {direction, pool});
      EXPECT_EQ(got.q, wanted.q) << first_position;
      EXPECT_EQ(got.k, wanted.k) << first_position;
      EXPECT_NE(got.q, untouched.q) << first_position;
      for (std::size_t d = 0; d < static_cast<std::size_t>(used.first); ++d) EXPECT_EQ(got.q[d], untouched.q[d]) << d;
    }
  }
}

TEST(RotateModel, RotatesTheBlockThatBeginsAtFirst) {
  const Model deepseek = parse_config(R"({"model_type": "deepseek_v3", "hidden_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "rope_theta": 10000.0, "max_position_embeddings": 4096,
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32,
                     "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}})");
  const ModelRope& mla = only(deepseek);
  EXPECT_EQ(mla.first, 128);
  EXPECT_EQ(mla.rope.head_dim, 192);
  expect_by_hand(mla);

  ModelRope middle;  // elements on both sides stand still
  middle.first = 6;
  middle.rope = {.head_dim = 20, .rotary_dim = 8, .base = 100, .pairing = Pairing::interleaved};
  expect_by_hand(middle);
  QK x(20), before(20);
  rotate_qk(x.heads_of_q(), x.heads_of_k(), middle, 5);
  for (std::size_t d = 14; d < 20; ++d) EXPECT_EQ(x.q[d], before.q[d]) << d;
}

TEST(RotateModel, IsTheRopesOwnWhereTheBlockBeginsAtZero) {
  const Model model = config_test::read("llama", "");
  QK got(128), wanted(128);
  rotate_qk(got.heads_of_q(), got.heads_of_k(), only(model), 9);
  rotate_qk(wanted.heads_of_q(), wanted.heads_of_k(), only(model).rope, 9);
  EXPECT_EQ(got.q, wanted.q);
  EXPECT_EQ(got.k, wanted.k);
}

TEST(RotateModel, TakesTheLengthFromThePositions) {
  ModelRope used;
  used.rope = {.head_dim = 8, .rotary_dim = 8, .pairing = Pairing::half, .scaling = Dynamic{4, 16}};
  expect_by_hand(used);
  QK far(8), trained(8);
  rotate_qk(far.heads_of_q(), far.heads_of_k(), used, 64);
  const Table table(frequencies(used.rope, 0), positions(64, tokens));
  rotate_qk(trained.heads_of_q(), trained.heads_of_k(), table);
  EXPECT_NE(far.q, trained.q);
}

TEST(RotateModel, RefusesWhatDoesNotFit) {
  ModelRope used;
  used.first = 4;
  used.rope = {.head_dim = 8, .rotary_dim = 4, .pairing = Pairing::half};
  QK x(8), other(4);
  const QK before(8);
  expect_error("SHAPE", "k must have the rope's head_dim 8 but got 4",
               [&] { rotate_qk(x.heads_of_q(), other.heads_of_k(), used, 0); });
  expect_error("POSITION", "first_position must be at least 0 but got -1",
               [&] { rotate_qk(x.heads_of_q(), x.heads_of_k(), used, -1); });
  used.first = 5;  // the block would end behind the head
  expect_error("SHAPE", "", [&] { rotate_qk(x.heads_of_q(), x.heads_of_k(), used, 0); });
  used.first = 4;
  used.rope.pairing = Pairing::unset;
  expect_error("PAIRING", "unset", [&] { rotate_qk(x.heads_of_q(), x.heads_of_k(), used, 0); });
  EXPECT_EQ(x.q, before.q);
  EXPECT_EQ(x.k, before.k);
}

}  // namespace
}  // namespace rotary
