// Dumps that hold more than one rotation: other blocks of the head, steps of the model around the rotation, keys that
// are rotated already, maps that are no rotation. Each right dump stands beside the wrong ones.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "files/tests/file_helpers.h"
#include "tools/tests/diagnose/case.h"

namespace rotary::diagnose_tests {
namespace {

using diagnose::CheckResult;
using diagnose::Outcome;
using diagnose::Request;
using Change = std::function<Data(const Data&)>;

CheckResult check(const Request& request, const std::string& name, const Data& before, const Data& after,
                  ElementType type = ElementType::f32) {
  return diagnose::check(request,
                         {{name, tensor_of(before, type, "bthd", name), tensor_of(after, type, "bthd", name)}});
}

std::set<Cause> causes(const CheckResult& result) {
  std::set<Cause> found;
  for (const auto& one : result.tensors[0].diagnosis.found) found.insert(one.cause);
  for (const auto& one : result.tensors[0].remarks) found.insert(one.cause);
  return found;
}

void expect(const CheckResult& result, Outcome outcome, std::optional<Cause> cause = {}) {
  EXPECT_EQ(result.outcome(), outcome) << result.tensors[0].sentence << result.tensors[0].note;
  if (!cause) return;
  EXPECT_TRUE(causes(result).contains(*cause)) << result.tensors[0].sentence << result.tensors[0].note;
}

Data changed(const Data& data, ElementType type, const std::function<double(double x, int t, int h, int d)>& change) {
  return with_values(data,
                     [&](int b, int t, int h, int d) { return to_type(change(data(b, t, h, d), t, h, d), type); });
}
Data rounded(const Data& data, ElementType type) {
  return changed(data, type, [](double x, int, int, int) { return x; });
}

Data at(const Data& x, double first, Engine engine = {}) {
  engine.position = [first](int, int t, int) { return first + t; };
  return engine(x);
}

class Around : public testing::TestWithParam<ElementType> {};
INSTANTIATE_TEST_SUITE_P(Types, Around, testing::Values(ElementType::f32, ElementType::bf16));

// ---- all of a head ----

// A text's rope, and a tower of two blocks, as Gemma 4 has it.
Model with_tower() {
  ModelRope text = model_rope(), first = model_rope({}, Pairing::half, 100), second;
  text.rope.head_dim = text.rope.rotary_dim = 256;
  text.layers = {0, 1};
  first.part = "vision_config";
  first.layers = {0, 1};
  first.rope.rotary_dim = 32;
  second = first;
  second.first = 32;
  return {.model_type = {}, .parts = {{.path = ""}, {.path = "vision_config"}}, .ropes = {text, first, second}};
}

TEST_P(Around, EveryBlockIsCompared) {
  const Data x = random_data({.head_dim = 64}, GetParam());
  const Data one = Engine{.speed = speeds(100, 32)}(x), both = Engine{.speed = speeds(100, 32), .first = 32}(one);
  const Data zeros = changed(both, GetParam(), [](double y, int, int, int d) { return d < 32 ? y : 0; });
  for (const char* name : {"q", "vision_tower.layers.1.q"}) {
    const Request request = request_of(with_tower());
    expect(check(request, name, x, both, GetParam()), Outcome::equal);
    expect(check(request, name, x, zeros, GetParam()), Outcome::differs);
    expect(check(request, name, x, one, GetParam()), Outcome::differs, Cause::not_rotated);
  }
  Request chosen = request_of(with_tower());
  chosen.rope = 1;
  expect(check(chosen, "q", x, both, GetParam()), Outcome::equal);
  expect(check(chosen, "q", x, one, GetParam()), Outcome::equal, Cause::still_block);
  expect(check(chosen, "q", x, zeros, GetParam()), Outcome::differs);
}

// ---- other ropes of the config ----

// A text rope of one axis, and a tower of the same width with two axes. The positions are the tower's: their first axis
// is no batch dimension.
TEST_P(Around, OtherRopesDoNotDisturb) {
  ModelRope text = model_rope(), tower = model_rope({}, Pairing::half, 100);
  text.part = "text_config";
  tower.part = "vision_config";
  tower.coordinates = true;
  text.layers = tower.layers = {0};  // a name without a part is the text's, unless the positions are the tower's
  for (int i = 0; i < 32; ++i) tower.rope.axis.push_back(static_cast<std::uint8_t>(i % 2));
  Model model{.model_type = {}, .parts = {{.path = "text_config"}, {.path = "vision_config"}}, .ropes = {text, tower}};
  std::vector<std::int64_t> places;
  for (int t = 0; t < 12; ++t) places.push_back(t / 4);
  for (int t = 0; t < 12; ++t) places.push_back(t % 4);
  const test::ScratchFolder folder;
  write_npy(folder / "p.npy", test::make_tensor<std::int64_t>("", ElementType::i64, {2, 12}, places));
  const Data x = random_data({.tokens = 12}, GetParam());
  const auto placed = [&](int off) {
    Engine engine;
    engine.angle = [=](int, int t, int i) { return ((i % 2 == 0 ? t / 4 : t % 4) + off) * std::pow(100, -i / 32.0); };
    return engine(x);
  };
  PositionSet given;
  given.spec = (folder / "p.npy").string();
  const Request request = request_of(model, given);
  expect(check(request, "q", x, placed(0), GetParam()), Outcome::undecided, Cause::open_rope);
  expect(check(request, "q", x, placed(1), GetParam()), Outcome::differs, Cause::offset);
  expect(check(request, "layers.0.q", x, placed(0), GetParam()), Outcome::equal);
  expect(check(request, "layers.0.q", x, placed(1), GetParam()), Outcome::differs, Cause::offset);

  // Two tensors that no rotation explains are compared with each other, by the tower's rope alone.
  const Data other =
      changed(x, GetParam(), [](double, int t, int h, int d) { return std::cos(7 * t + 13 * h + d * d); });
  const Tensor before = tensor_of(x, GetParam(), "bthd", ""), after = tensor_of(other, GetParam(), "bthd", "");
  for (const int head_dim : {64, 256}) {
    model.ropes[0].rope.head_dim = model.ropes[0].rope.rotary_dim = head_dim;
    const CheckResult both = diagnose::check(request_of(model, given), {{"vision_tower.layers.0.q", before, after},
                                                                        {"vision_tower.layers.0.k", before, after}});
    expect(both, Outcome::differs, Cause::norms);
  }
}

// In 16 bits the slow pairs of the width axis turn by less than their rounding, so they do not show its positions.
TEST(OtherAxes, AreNotAccused) {
  ModelRope used = model_rope({}, Pairing::half, 1e6);
  used.rope.head_dim = used.rope.rotary_dim = 128;
  used.heads = used.kv_heads = 28;
  used.axis_names = {"time", "height", "width"};
  used.rope.axis = sectioned_axes(std::vector{16, 24, 24});
  PositionSet places{.axes = 3, .tokens = 64};
  for (int axis = 0; axis < 3; ++axis) {
    for (int t = 0; t < 64; ++t) places.reals.push_back(5 + (axis == 0 ? 0 : axis == 1 ? t / 10 : t % 10));
  }
  const Data x = random_data({.tokens = 64, .heads = 28, .head_dim = 128}, ElementType::bf16);
  Engine engine;
  engine.speed = speeds(1e6, 128);
  const auto placed = [&](int off) {
    engine.angle = [&, off](int, int t, int i) {
      const auto pair = static_cast<std::size_t>(i);
      const std::size_t axis = used.rope.axis[pair];
      const double position = places.reals[axis * 64 + static_cast<std::size_t>(t)] + (axis > 0 ? off : 0);
      return position * engine.speed[pair];
    };
    return engine(x);
  };
  const Request request = request_of(model_of(used), places);
  expect(check(request, "q", x, placed(0), ElementType::bf16), Outcome::equal);
  const CheckResult wrong = check(request, "q", x, placed(-1), ElementType::bf16);
  expect(wrong, Outcome::differs, Cause::offset);
  EXPECT_FALSE(causes(wrong).contains(Cause::linear)) << wrong.tensors[0].sentence;
}

// ---- keys that are rotated already ----

TEST_P(Around, KeysOfACacheMove) {
  ModelRope used = model_rope(Yarn{.factor = 16, .trained_length = 4096});
  const Frequencies f = frequencies(used.rope, 400);
  const Data raw = random_data({.tokens = 32}, GetParam());
  const auto rotated = [&](const Data& x, double by, double factor) {
    return rounded(at(x, by, {.speed = f.inv_freq, .factor = factor}), GetParam());
  };
  const auto moved = [&](const Data& x, double by, double factor = 1) {  // all tokens by the same
    Engine engine{.speed = f.inv_freq, .factor = factor, .position = [by](int, int, int) { return by; }};
    return engine(x);
  };
  const Data before = rotated(raw, 300, f.attention_factor);
  Request request = request_of(model_of(used), from(200, 32));
  request.from = from(300, 32);
  const auto expect_key = [&](const Data& after, Outcome outcome, std::optional<Cause> cause = {}) {
    expect(check(request, "k", before, after, GetParam()), outcome, cause);
  };
  expect_key(moved(before, -100), Outcome::equal);
  expect_key(rotated(raw, 200, f.attention_factor), Outcome::equal);
  expect_key(moved(before, -100, f.attention_factor), Outcome::differs, Cause::factor_twice);
  expect_key(moved(before, -100, 1 / f.attention_factor), Outcome::differs, Cause::without_factor);
  expect_key(moved(before, -99), Outcome::differs, Cause::offset);
  expect_key(moved(before, 100), Outcome::differs, Cause::moved_back);
  expect_key(before, Outcome::differs, Cause::not_rotated);
  request.from->reals[0] = request.positions->reals[0] = 0;  // a sink stays
  const Data turned_back = with_values(moved(before, 100), [&, all = moved(before, 100)](int b, int t, int h, int d) {
    return t == 0 ? before(b, t, h, d) : all(b, t, h, d);
  });
  const CheckResult found = check(request, "k", before, turned_back, GetParam());
  expect(found, Outcome::differs, Cause::moved_back);
  EXPECT_NE(found.tensors[0].sentence.find("the first position that moves is 401 instead of 201"), std::string::npos)
      << found.tensors[0].sentence;
}

TEST_P(Around, TurnedBack) {
  for (const auto& [pairing, pairs] :
       {std::pair(Pairing::half, Pairs::half), {Pairing::interleaved, Pairs::interleaved}}) {
    ModelPart part;
    part.turns_back = true;
    const Data x = random_data({.tokens = 24}, GetParam());
    const Data forward = Engine{.pairs = pairs}(x), back = Engine{.pairs = pairs, .clockwise = true}(x);
    Request request = request_of(model_of(model_rope({}, pairing), part));
    expect(check(request, "attn_output", x, back, GetParam()), Outcome::equal);
    expect(check(request, "attn_output", x, forward, GetParam()), Outcome::differs, Cause::direction);
    expect(check(request, "q", x, forward, GetParam()), Outcome::equal);
    expect(check(request, "q", x, back, GetParam()), Outcome::differs, Cause::direction);
    request.backward = true;
    expect(check(request, "q", x, back, GetParam()), Outcome::equal);
  }
}

// ---- factors of queries ----

constexpr double first_far = 20000;
double factor_of_query(double position) { return 1 + 0.1 * std::log(1 + std::floor((position + 1) / 8192)); }

Model with_query_scale(bool turns) {
  ModelRope used = model_rope();
  used.layers = turns ? std::vector{0, 1} : std::vector{0};
  Model model = model_of(used, {.path = "", .layers = 2});
  const std::vector<int> multiplied = turns ? std::vector{0, 1} : std::vector{1};
  model.query_scales = {{"", {QueryForm::steps, 0.1, 8192, 1}, multiplied, "floor_scale"}};
  return model;
}

TEST_P(Around, FactorsOfQueries) {
  const Data x = random_data({.tokens = 24}, GetParam());
  const auto times = [&](const Data& y, int power) {
    return changed(y, GetParam(),
                   [=](double one, int t, int, int) { return one * std::pow(factor_of_query(first_far + t), power); });
  };
  Request still = request_of(with_query_scale(false), from(first_far, 24));  // Llama 4: in layers without a rope
  expect(check(still, "layers.1.q", x, times(x, 1), GetParam()), Outcome::equal, Cause::query_factor);
  expect(check(still, "layers.1.q", x, x, GetParam()), Outcome::differs, Cause::query_factor_left_out);
  expect(check(still, "layers.1.q", x, times(x, 2), GetParam()), Outcome::differs, Cause::query_factor_twice);
  expect(check(still, "layers.1.k", x, x, GetParam()), Outcome::equal);
  const Data y = at(x, first_far);
  expect(check(still, "layers.0.q", x, y, GetParam()), Outcome::equal);
  expect(check(still, "layers.0.q", x, times(y, 1), GetParam()), Outcome::differs, Cause::factor);
  Request turning = request_of(with_query_scale(true), from(first_far, 24));  // Ministral 3: behind the rotation
  expect(check(turning, "layers.0.q", x, times(y, 1), GetParam()), Outcome::equal, Cause::query_factor);
  expect(check(turning, "layers.0.q", x, y, GetParam()), Outcome::undecided, Cause::query_factor_open);
  expect(check(turning, "layers.0.q", x, times(y, 2), GetParam()), Outcome::differs, Cause::query_factor_twice);
  expect(check(turning, "layers.0.q", x, times(at(x, first_far + 1), 1), GetParam()), Outcome::differs, Cause::offset);
  expect(check(turning, "layers.0.k", x, y, GetParam()), Outcome::equal);
  turning.query_scale = true;
  expect(check(turning, "layers.0.q", x, times(y, 1), GetParam()), Outcome::equal);
  expect(check(turning, "layers.0.q", x, y, GetParam()), Outcome::differs, Cause::query_factor_left_out);
}

// ---- norms ----

TEST_P(Around, TheOrderOfNormAndRotation) {
  const Data x = changed(random_data({.tokens = 32}, GetParam()), GetParam(),
                         [](double one, int, int h, int) { return one * (1 + h); });
  const auto behind = [&](const Data& y) { return normed(rounded(y, GetParam()), GetParam()); };
  const Data front = rounded(Engine{}(normed(x, GetParam())), GetParam());
  ModelPart part;
  const Request usual = request_of(model_of(model_rope(), part));
  part.norm_behind = true;
  const Request hunyuan = request_of(model_of(model_rope(), part));
  expect(check(hunyuan, "q", x, behind(Engine{}(x)), GetParam()), Outcome::equal, Cause::norm_behind_asked);
  expect(check(hunyuan, "q", x, front, GetParam()), Outcome::differs, Cause::norm_in_front);
  expect(check(hunyuan, "q", x, Engine{}(x), GetParam()), Outcome::equal);
  expect(check(hunyuan, "q", x, behind(at(x, 1)), GetParam()), Outcome::differs, Cause::offset);
  expect(check(usual, "q", x, front, GetParam()), Outcome::differs, Cause::before_norm);
  expect(check(usual, "q", x, behind(Engine{}(x)), GetParam()), Outcome::differs, Cause::norm_behind);
}

// ---- maps that are no rotation ----

TEST_P(Around, MapsOfPairs) {
  const Data x = random_data({.tokens = 24}, GetParam());
  constexpr int n = 32;
  // The entries [uu, uv; vu, vv] by the pair's cos and sin and the sin of the pair 16 places later.
  using Entries = std::array<double, 4> (*)(double c, double s, double further);
  const std::pair<Entries, const char*> maps[] = {
      {[](double c, double s, double) {
         return std::array{c, -s / 2, s, c};
       },
       "[c, -s/2; s, c]"},
      {[](double c, double, double) {
         return std::array{c, 0., 0., c};
       },
       "[c, 0; 0, c]"},
      {[](double c, double, double) {
         return std::array{c, -c, c, c};
       },
       "[c, -c; c, c]"},
      {[](double c, double s, double far) {
         return std::array{c, -s, far, c};
       },
       "in every pair the second sin is taken from the pair 16 places later"},
      {[](double c, double s, double) {
         return std::array{c, s, s, c};
       },
       "q is not rotated but mirrored: the minus sign is missing"},
      {[](double c, double s, double) {
         return std::array{s, -c, c, s};
       },
       "q is rotated with sin and cos exchanged"},
      {[](double c, double s, double) {
         return std::array{c, -s, 0., c};
       },
       "lacks the first times sin"},
      {[](double c, double s, double) {
         return std::array{c, -s, s, c};
       },
       nullptr}};
  for (const auto& [entries, words] : maps) {
    const Data y = with_values(x, [&, entries = entries](int b, int t, int h, int d) {
      const double angle = t * speeds()[static_cast<std::size_t>(d % n)];
      const double far = std::sin(t * speeds()[static_cast<std::size_t>((d + 16) % n)]);
      const auto map = entries(std::cos(angle), std::sin(angle), far);
      const std::size_t first = d < n ? 0 : 2;
      return to_type(map[first] * x(b, t, h, d % n) + map[first + 1] * x(b, t, h, d % n + n), GetParam());
    });
    const CheckResult result = check(request_of(model_of(model_rope())), "q", x, y, GetParam());
    EXPECT_EQ(result.outcome(), words != nullptr ? Outcome::differs : Outcome::equal);
    const std::string& sentence = result.tensors[0].sentence;
    EXPECT_TRUE(words == nullptr || sentence.find(words) != std::string::npos) << sentence;
  }
}

// ---- float32's grid ----

TEST(FarAway, AnOffsetOfOneAtThreeMillions) {
  const Data x = random_data({.tokens = 24}, ElementType::f32);
  Engine engine;
  for (double& speed : engine.speed) speed = static_cast<float>(speed);
  engine.rounds_angle = [](double angle) { return static_cast<double>(static_cast<float>(angle)); };
  constexpr double far = 3000000;
  const Request request = request_of(model_of(model_rope()), from(far, 24));
  expect(check(request, "q", x, at(x, far, engine)), Outcome::equal);
  expect(check(request, "q", x, at(x, far)), Outcome::equal);
  expect(check(request, "q", x, at(x, far + 1, engine)), Outcome::differs, Cause::offset);
  expect(check(request, "q", x, at(x, far - 1, engine)), Outcome::differs, Cause::offset);
}

// ---- MLA: values narrower than the heads, a row of the cache ----

TEST_P(Around, ValuesAreNarrower) {
  ModelRope used = model_rope();
  used.rope.head_dim = 192;
  used.first = 128;
  Request request = request_of(model_of(used));
  const Data x = random_data({.head_dim = 128}, GetParam());
  const Data y = changed(x, GetParam(), [](double one, int t, int, int) { return t < 3 ? one : one + 0.5; });
  expect(check(request, "v", x, x, GetParam()), Outcome::equal);
  expect(check(request, "v", x, y, GetParam()), Outcome::differs, Cause::changed_nonetheless);
  request.rotated = true;
  expect(check(request, "v", x, x, GetParam()), Outcome::equal);
  expect(check(request, "v", x, y, GetParam()), Outcome::differs, Cause::another_in_second);
}

TEST_P(Around, ARowOfLatentAndKey) {
  ModelRope used = model_rope();
  used.rope.head_dim = 192;
  used.first = 128;
  ModelPart part;
  part.latent = 512;
  const Request request = request_of(model_of(used, part));
  const Data x = random_data({.tokens = 24, .heads = 1, .head_dim = 576}, GetParam());
  const Data y = Engine{.first = 512}(x);
  expect(check(request, "k", x, y, GetParam()), Outcome::equal);
  expect(check(request, "k", x, at(x, 1, {.first = 512}), GetParam()), Outcome::differs, Cause::offset);
  const Data zeros = changed(y, GetParam(), [](double one, int, int, int d) { return d < 512 ? 0 : one; });
  expect(check(request, "k", x, zeros, GetParam()), Outcome::differs, Cause::still_elements_zero);
}

}  // namespace
}  // namespace rotary::diagnose_tests
