// rotary_torch from C++: the op against the scalar oracle and torch's own ops, RotaryEmbedding against the formula.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <filesystem>
#include <sstream>
#include <vector>

#include "rotary/reference.h"
#include "rotary/self_test.h"
#include "rotary_torch/op/rotary_embedding.h"
#include "torch/tests/tensors.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Pairing;

TEST(Core, InsideTorchHasThePromisedBits) { EXPECT_NO_THROW(rotary::self_test()); }

constexpr Pairing pairings[] = {Pairing::half, Pairing::interleaved, Pairing::interleaved_to_half};
constexpr Dims every_dims[] = {Dims::bthd, Dims::bhtd, Dims::tbhd, Dims::thd};
const std::filesystem::path configs = std::filesystem::path(ROTARY_SOURCE_DIR) / "files/tests/golden/configs";

rotary::Rope plain_rope(int head_dim, Pairing pairing = Pairing::half) {
  rotary::Rope rope;
  rope.head_dim = head_dim;
  rope.pairing = pairing;
  return rope;
}

rotary::Table table_of(const rotary::Rope& rope, std::int64_t first, std::int64_t tokens) {
  return {rotary::frequencies(rope), rotary::positions(first, tokens)};
}

Tensor heads(Dims dims, std::int64_t tokens, std::int64_t heads, std::int64_t head_dim) {
  switch (dims) {
    case Dims::bthd:
      return torch::randn({2, tokens, heads, head_dim});
    case Dims::bhtd:
      return torch::randn({2, heads, tokens, head_dim});
    case Dims::tbhd:
      return torch::randn({tokens, 2, heads, head_dim});
    case Dims::thd:
      break;
  }
  return torch::randn({tokens, heads, head_dim});
}

// To [batch, tokens, heads, head_dim], contiguous, and back.
Tensor as_bthd(const Tensor& x, Dims dims) {
  if (dims == Dims::thd) return x.unsqueeze(0).contiguous();
  return (dims == Dims::bthd ? x : dims == Dims::bhtd ? x.transpose(1, 2) : x.transpose(0, 1)).contiguous();
}

Tensor by_oracle(const Tensor& x, const rotary::Table& table, Dims dims, int first) {
  const Tensor in = as_bthd(x, dims);
  Tensor out = in.clone();
  const rotary::DType dtype = x.scalar_type() == at::kFloat  ? rotary::DType::f32
                              : x.scalar_type() == at::kHalf ? rotary::DType::f16
                                                             : rotary::DType::bf16;
  const auto head_dim = static_cast<int>(in.size(3));
  const rotary::Layout layout = rotary::bthd(in.size(0), in.size(1), in.size(2), head_dim);
  rotary::reference::rotate(
      rotary::slice(rotary::ConstHeads{in.const_data_ptr(), dtype, layout}, first, head_dim - first),
      rotary::slice(rotary::Heads{out.data_ptr(), dtype, layout}, first, head_dim - first), table);
  return out;
}

TEST(Op, EqualsTheScalarOracleInEveryLayoutPairingAndType) {
  torch::manual_seed(1);
  for (const Dims dims : every_dims) {
    for (const Pairing pairing : pairings) {
      for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
        for (const int first : {0, 3}) {
          rotary::Rope rope = plain_rope(20, pairing);
          rope.rotary_dim = 14;
          const rotary::Table table = table_of(rope, 1000, 7);
          const Tensor x = heads(dims, 7, 3, 20).to(dtype);
          const Tensor fused = torch::cat({x, x, x}, -1).slice(-1, 20, 40);
          const Tensor expected = by_oracle(x, table, dims, first);
          EXPECT_TRUE(torch::equal(as_bthd(rotate(x, table, dims, first), dims), expected)) << name(dims);
          EXPECT_TRUE(torch::equal(as_bthd(rotate(fused, table, dims, first), dims), expected)) << name(dims);
          const Tensor in_place = x.clone();
          rotate_(in_place, tensors(table), dims, first);
          EXPECT_TRUE(torch::equal(as_bthd(in_place, dims), expected)) << name(dims);
        }
      }
    }
  }
}

TEST(Op, BackwardIsTheTransposeAndReachesTheTable) {
  torch::manual_seed(2);
  for (const Pairing pairing : pairings) {
    TableTensors table = tensors(table_of(plain_rope(8, pairing), 5, 6));
    table.cos.requires_grad_(), table.sin.requires_grad_();
    const Tensor x = heads(Dims::bthd, 6, 2, 8).requires_grad_(), g = torch::randn_like(x);
    rotate(x, table, Dims::bthd).backward(g);
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(torch::equal(x.grad(), rotate_backward(g, table, Dims::bthd)));
    // <g, R x> is linear in the table: it equals cos . its gradient + sin . its gradient.
    const double through = (g * rotate(x, table, Dims::bthd)).to(at::kDouble).sum().item<double>();
    const double table_side =
        (table.cos * table.cos.grad() + table.sin * table.sin.grad()).to(at::kDouble).sum().item<double>();
    const double x_side = (x * x.grad()).to(at::kDouble).sum().item<double>();
    EXPECT_NEAR(through, table_side, 1e-4);
    EXPECT_NEAR(through, x_side, 1e-4);
  }
}

TEST(Op, TorchThreadsShareTheWork) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::vector<int> seen(1000);
  EXPECT_EQ(threads().concurrency(), 2U);
  const rotary::Table table = table_of(plain_rope(64), 0, 900);
  const Tensor x = heads(Dims::bhtd, 900, 8, 64), parallel = rotate(x, table, Dims::bhtd);
  threads().run(
      1000, 1,
      [](void* context, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          (*static_cast<std::vector<int>*>(context))[static_cast<std::size_t>(i)] += 1 + at::get_thread_num();
      },
      &seen);
  at::set_num_threads(1);
  EXPECT_TRUE(torch::equal(rotate(x, table, Dims::bhtd), parallel));
  EXPECT_EQ(seen.front(), 1);
#ifdef _OPENMP
  EXPECT_EQ(seen.back(), 2) << "the last range must run on a second thread";
#endif
  at::set_num_threads(before);
}

TEST(Op, InPlaceATableInTheSameStorageIsReadAsItWas) {
  const Tensor x = torch::randn({1, 4, 2, 8});
  const TableTensors inside{x.view(-1).narrow(0, 0, 16).view({4, 4}), x.view(-1).narrow(0, 40, 16).view({4, 4}),
                            Pairing::half};
  const Tensor expected = rotate(x, inside, Dims::bthd);
  rotate_(x, inside, Dims::bthd);
  EXPECT_TRUE(torch::equal(x, expected));
}

TEST(Op, RefusesATableWhosePairingNobodySet) {
  const TableTensors rows = tensors(table_of(plain_rope(8), 0, 4));
  const TableTensors unset{.cos = rows.cos, .sin = rows.sin};
  const Tensor x = torch::zeros({1, 4, 2, 8});
  const std::string sentence = "pairing must be half, interleaved or interleaved_to_half but got 'unset'";
  EXPECT_EQ(sentence_of([&] { rotate(x, unset, Dims::bthd); }), "[rotate] " + sentence);
  EXPECT_EQ(sentence_of([&] { rotate_(x, unset, Dims::bthd); }), "[rotate_] " + sentence);
  EXPECT_EQ(sentence_of([&] { rotate_backward(x, unset, Dims::bthd); }), "[rotate_backward] " + sentence);
  EXPECT_NE(sentence_of([] { RotaryEmbedding(rotary::Rope{.head_dim = 8}); }).find("pairing"), std::string::npos);
}

TEST(Op, RefusesTangents) {
  const auto level = static_cast<std::int64_t>(torch::autograd::ForwardADLevel::get_next_idx());
  const TableTensors rows = tensors(table_of(plain_rope(8), 0, 4));
  const auto dual = [level](const Tensor& x) { return at::_make_dual(x, at::ones_like(x), level); };
  const Tensor x = torch::zeros({1, 4, 2, 8}), speeds = torch::ones({4}, at::kDouble);
  const auto refused = [](const auto& call) {
    EXPECT_NE(sentence_of(call).find("must have no tangent"), std::string::npos) << sentence_of(call);
  };
  refused([&] { rotate_(dual(x), rows, Dims::bthd); });
  refused([&] { rotate_(x, {dual(rows.cos), rows.sin, rows.pairing}, Dims::bthd); });
  refused([&] { rotate_(x, {rows.cos, dual(rows.sin), rows.pairing}, Dims::bthd); });
  refused([&] { table(torch::arange(3), dual(speeds)); });
  refused([&] { table(dual(torch::arange(3, at::kDouble)), speeds); });
  torch::autograd::ForwardADLevel::release_idx(static_cast<std::uint64_t>(level));
}

TEST(Op, ErrorsOfTheCoreKeepTheirSentence) {
  const Tensor overlapping = torch::zeros({1, 4, 1, 8}).expand({1, 4, 3, 8});
  const std::string sentence =
      sentence_of([&] { rotate_(overlapping, tensors(table_of(plain_rope(8), 0, 4)), Dims::bthd); });
  EXPECT_NE(sentence.find("[rotate] "), std::string::npos);
}

TEST(Embedding, EqualsTheFormulaAtAnOffset) {
  torch::manual_seed(3);
  RotaryEmbedding rope(plain_rope(64));
  const Tensor q = torch::randn({2, 8, 10, 64}), k = torch::randn({2, 2, 10, 64});
  const auto [rotated_q, rotated_k] = rope(q, k, 4090, Dims::bhtd);
  const Tensor speeds = torch::pow(10000, -torch::arange(32, at::kDouble) / 32);
  const Tensor angles = torch::outer(torch::arange(4090, 4100, at::kDouble), speeds);
  const Tensor cos = torch::cat({angles.cos(), angles.cos()}, -1), sin = torch::cat({angles.sin(), angles.sin()}, -1);
  for (const auto& [x, rotated] : {std::pair{q, rotated_q}, std::pair{k, rotated_k}}) {
    const Tensor wide = x.to(at::kDouble);
    const Tensor other = torch::cat({-wide.slice(-1, 32), wide.slice(-1, 0, 32)}, -1);
    EXPECT_LT((wide * cos + other * sin - rotated).abs().max().item<double>(), 2e-6);
  }
}

TEST(Embedding, TokenByTokenEqualsTheWholeSequenceInBothLayouts) {
  torch::manual_seed(4);
  RotaryEmbedding rope(plain_rope(16, Pairing::interleaved));
  const Tensor q = torch::randn({2, 9, 4, 16}), k = torch::randn({2, 9, 2, 16});
  const auto [all_q, all_k] = rope(q, k, 0, Dims::bthd);
  const auto [h_q, h_k] = rope(q.transpose(1, 2), k.transpose(1, 2), 0, Dims::bhtd);
  EXPECT_TRUE(torch::equal(h_q.transpose(1, 2), all_q));
  EXPECT_TRUE(torch::equal(h_k.transpose(1, 2), all_k));
  for (std::int64_t t = 0; t < 9; ++t) {
    const auto [one_q, one_k] = rope(q.narrow(1, t, 1), k.narrow(1, t, 1), t, Dims::bthd);
    EXPECT_TRUE(torch::equal(one_q, all_q.narrow(1, t, 1)));
    EXPECT_TRUE(torch::equal(one_k, all_k.narrow(1, t, 1)));
  }
}

TEST(Embedding, PositionIdsPerBatchRowServeLeftPadding) {
  torch::manual_seed(5);
  RotaryEmbedding rope(plain_rope(16));
  const Tensor q = torch::randn({2, 3, 5, 16}), ids = torch::tensor({{0, 1, 2, 3, 4}, {1, 1, 0, 1, 2}});
  const auto [rotated, ignored] = rope(q, q, ids, Dims::bhtd);
  const auto [later, ignored_too] = rope(q.narrow(2, 2, 3), q.narrow(2, 2, 3), 0, Dims::bhtd);
  EXPECT_TRUE(torch::equal(rotated.select(0, 1).narrow(1, 2, 3), later.select(0, 1)));
  EXPECT_TRUE(torch::equal(rope(q, q, ids.to(at::kInt), Dims::bhtd).first, rotated));
  EXPECT_TRUE(torch::equal(rope(q, q, ids.to(at::kDouble), Dims::bhtd).first, rotated));
}

TEST(Embedding, HasNoHiddenState) {
  RotaryEmbedding rope = rotary_embedding(configs / "llama-7b-dynamic.json");
  const Tensor q = torch::randn({1, 4, 1, rope->rope().head_dim});
  const Tensor before = rope(q, q, 100, Dims::bhtd).first;
  const Tensor far = rope(q, q, 100000, Dims::bhtd).first;  // dynamic scaling stretches the base here
  EXPECT_TRUE(torch::isfinite(far).all().item<bool>());
  EXPECT_TRUE(torch::equal(rope(q, q, 100, Dims::bhtd).first, before));
  EXPECT_TRUE(rope->parameters().empty());
  EXPECT_TRUE(rope->buffers().empty());
  rope->to(at::kHalf);
  EXPECT_TRUE(torch::equal(rope(q, q, 100, Dims::bhtd).first, before));
}

TEST(Embedding, LengthIsTheLargestPositionPlusOne) {
  for (const char* file : {"llama-7b-dynamic.json", "phi-3.5-mini.json"}) {
    const rotary::Model model = rotary::read_config(configs / file);
    const rotary::Rope& rope = model.ropes.at(0).rope;
    RotaryEmbedding module(model.ropes.at(0));
    for (const std::int64_t last : {100, 2047, 2048, 4095, 4096, 60000}) {
      const TableTensors table = module->table(torch::tensor({std::int64_t{3}, last}));
      const rotary::Table expected(rotary::frequencies(rope, last + 1), {std::int64_t{3}, last});
      EXPECT_TRUE(torch::equal(table.cos, tensors(expected).cos)) << file << " " << last;
      EXPECT_TRUE(torch::equal(table.sin, tensors(expected).sin)) << file << " " << last;
    }
  }
}

TEST(Embedding, TakesFirstAndPairingFromTheConfigAndTheBareBlockToo) {
  torch::manual_seed(6);
  RotaryEmbedding rope = rotary_embedding(configs / "deepseek-v3.json");
  const Tensor q = torch::randn({1, 6, 2, 192});  // 128 that stay, 64 that rotate
  const Tensor whole = rope(q, q, 0, Dims::bthd).first;
  EXPECT_TRUE(torch::equal(whole.slice(-1, 0, 128), q.slice(-1, 0, 128)));
  EXPECT_FALSE(torch::equal(whole.slice(-1, 128), q.slice(-1, 128)));
  const Tensor block = q.slice(-1, 128);
  EXPECT_TRUE(torch::equal(rope(block, block, 0, Dims::bthd).first, whole.slice(-1, 128)));
}

TEST(Embedding, SeveralAxesTakeOnePositionEach) {
  torch::manual_seed(7);
  RotaryEmbedding rope = rotary_embedding(configs / "qwen2.5-vl-7b.json");
  ASSERT_EQ(rope->rope().head_dim, 128);
  const Tensor q = torch::randn({1, 5, 2, 128}), text = torch::arange(5);
  const Tensor as_text = rope(q, q, text, Dims::bthd).first;
  EXPECT_TRUE(torch::equal(rope(q, q, text.expand({3, 5}), Dims::bthd).first, as_text));
  EXPECT_TRUE(torch::equal(rope(q, q, text.expand({3, 1, 5}), Dims::bthd).first, as_text));
  const Tensor image = torch::stack({text, text * 0, text * 2});
  const Tensor rotated = rope(q, q, image, Dims::bthd).first;
  // Sections 16, 24, 24: pairs 0 to 15 follow the time, 16 to 39 the height, which is 0 here.
  EXPECT_TRUE(torch::equal(rotated.slice(-1, 0, 16), as_text.slice(-1, 0, 16)));
  EXPECT_TRUE(torch::equal(rotated.slice(-1, 16, 40), q.slice(-1, 16, 40)));
  EXPECT_FALSE(torch::equal(rotated.slice(-1, 40, 64), as_text.slice(-1, 40, 64)));
}

TEST(Embedding, LearnedFrequenciesFallIntoPlaceByGradientDescent) {
  torch::manual_seed(8);
  rotary::Rope rope = plain_rope(4);
  rope.base = 100;
  RotaryEmbedding learner(rope, RotaryEmbeddingOptions{.learned = true});
  EXPECT_EQ(learner->parameters().size(), 2U);
  const Tensor q = torch::randn({4, 12, 2, 4});
  RotaryEmbedding teacher(rope);
  const Tensor target = teacher(q, q, 0, Dims::bthd).first;
  EXPECT_TRUE(torch::equal(learner(q, q, 0, Dims::bthd).first, target));
  {
    const torch::NoGradGuard no_grad;
    learner->inv_freq.mul_(1.05);
    learner->attention_factor.mul_(1.2);
  }
  torch::optim::Adam optimizer(learner->parameters(), 0.01);
  double loss_now = 1;
  for (int step = 0; step < 300; ++step) {
    optimizer.zero_grad();
    const Tensor loss = (learner(q, q, 0, Dims::bthd).first - target).square().mean();
    loss.backward();
    optimizer.step();
    loss_now = loss.item<double>();
  }
  EXPECT_LT(loss_now, 1e-6);
  EXPECT_NEAR(learner->inv_freq[0].item<double>(), 1, 1e-3);
  EXPECT_NEAR(learner->inv_freq[1].item<double>(), 0.1, 1e-3);
  EXPECT_NEAR(learner->attention_factor.item<double>(), 1, 1e-3);
}

TEST(Embedding, ClockwiseIsTheTransposedRotation) {
  rotary::Rope rope{.head_dim = 8, .pairing = rotary::Pairing::half};
  const Tensor q = torch::randn({1, 5, 2, 8}), place = torch::arange(5);
  RotaryEmbedding plain(rope);
  const Tensor back = rotate_backward(q, plain->table(place), Dims::bthd);
  rope.clockwise = true;
  for (const bool learned : {false, true}) {
    RotaryEmbedding clockwise(rope, RotaryEmbeddingOptions{.learned = learned});
    EXPECT_TRUE(torch::equal(clockwise(q, q, 0, Dims::bthd).first, back)) << learned;
  }
}

TEST(Embedding, SaysWhatItIsAndWhatIsWrong) {
  std::ostringstream text;
  text << *rotary_embedding(configs / "deepseek-v3.json");
  EXPECT_NE(text.str().find("head_dim=192, rotary_dim=64, first=128"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("scaling=yarn"), std::string::npos) << text.str();
  EXPECT_NE(sentence_of([] { rotary_embedding(configs / "absent.json"); }).find("absent.json"), std::string::npos);
  EXPECT_NE(
      sentence_of([] { rotary_embedding(configs / "llama-2-7b.json", 1); }).find("rope must be one of the model's 1"),
      std::string::npos);
  RotaryEmbedding rope(plain_rope(16));
  const Tensor q = torch::zeros({1, 3, 2, 16});
  EXPECT_NE(sentence_of([&] {
              rope(q, torch::zeros({1, 3, 2, 18}), 0, Dims::bthd);
            }).find("must have head_dim 16"),
            std::string::npos);
  EXPECT_EQ(sentence_of([&] {
              rope(q, torch::zeros({1, 4, 2, 16}), 0, Dims::bthd);
            }),
            "[rotate] the table must have a row for each token of x, 4, but has 3");
  EXPECT_NE(sentence_of([&] {
              rope(q, q, torch::tensor({0.5F, 1.0F, 2.0F}), Dims::bthd);
            }).find("positions must be"),
            std::string::npos);
  rotary::Rope xpos = plain_rope(16), phase = xpos, sums = xpos;
  xpos.xpos.scale = 512, phase.phase = std::vector<double>(8, 0.5);
  sums.summed_axes = sums.head_rows = 2, sums.inv_freq = std::vector<double>(32, 0.5);
  RotaryEmbedding amplitude(xpos);
  EXPECT_NE(sentence_of([&] { amplitude(q, q, 0, Dims::bthd); }).find("a rope without xPos"), std::string::npos);
  for (const rotary::Rope& more : {xpos, phase, sums}) {
    EXPECT_NE(sentence_of([&] {
                RotaryEmbedding bad(more, RotaryEmbeddingOptions{.learned = true});
              }).find("learned frequencies take a rope without phase"),
              std::string::npos);
  }
  rotary::Rope odd = plain_rope(7);
  EXPECT_NE(sentence_of([&] { RotaryEmbedding bad(odd); }).find("["), std::string::npos);
}

}  // namespace
}  // namespace rotary_torch
