// Cases that an independent judge found: tensors that say little, engines of other habits, and facts that must not be
// claimed.
#include <algorithm>

#include "files/tests/file_helpers.h"
#include "tools/tests/diagnose/case.h"

namespace rotary::diagnose_tests {
namespace {

void clear_token(Data& data, int token) {
  for (int h = 0; h < data.heads; ++h) {
    for (int d = 0; d < data.head_dim; ++d) data.values[data.at(0, token, h, d)] = 0;
  }
}

TEST(Hard, TokensOfZerosAreLeftOut) {
  for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
    Case one(type);
    for (const int token : {0, 1, 7, 15}) clear_token(one.before, token);
    const Diagnosis offset = one.diagnose({.position = [](int, int t, int) { return t + 3.0; }});
    expect_said(offset, Verdict::offset);
    EXPECT_EQ(offset.facts.positions.at(0).at(7), 10);
    EXPECT_EQ(one.diagnose({.clockwise = true}).facts.clockwise, true);
    EXPECT_EQ(one.diagnose({.position = [](int, int t, int) { return 2.0 * t; }}).verdict, Verdict::twice);
  }
}

// rotate(i) of an interleaved block whose last pairs hardly move.
TEST(Hard, AnInterleavedPartOfTheHead) {
  for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
    for (const int width : {16, 32, 48}) {
      Case one(type, {.tokens = 20});
      const Diagnosis found = one.diagnose({.speed = speeds(10000, width), .pairs = Pairs::interleaved});
      expect_said(found, Verdict::pairing);
      EXPECT_EQ(found.facts.base, 10000) << found.sentence;
      EXPECT_EQ(found.facts.first, 0);
      EXPECT_TRUE(type != ElementType::f32 || found.facts.rotary_dim == width) << found.sentence;
    }
  }
}

// theta *= theta_scale in float32, from pair to pair.
TEST(Hard, AnEngineThatMultipliesItsAngles) {
  for (const int first : {1000, 30000, 100000}) {
    Case one(ElementType::f32);
    one.subject.positions = from(first);
    const Engine engine{.angle = [=](int, int t, int pair) {
      float theta = static_cast<float>(first + t);
      const float scale = std::pow(10000.0F, -2.0F / 64);
      for (int i = 0; i < pair; ++i) theta *= scale;
      return static_cast<double>(theta);
    }};
    const Diagnosis found = one.diagnose(engine);
    expect_said(found, Verdict::as_configured);
    EXPECT_EQ(found.facts.precision, Precision::f32);
  }
}

TEST(Hard, FarAwayAnglesInFloat32AreNotThoseOfHalf) {
  for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
    Case one(type);
    one.subject.positions = from(300000);
    const Diagnosis found = one.diagnose({.angle = [](int, int t, int pair) {
      const float speed = static_cast<float>(speeds()[static_cast<std::size_t>(pair)]);
      return static_cast<double>(static_cast<float>(300000 + t) * speed);
    }});
    expect_said(found, Verdict::as_configured);
    EXPECT_TRUE(!found.facts.precision || found.facts.precision == Precision::f32);
  }
}

TEST(Hard, OpenPositions) {
  Case one(ElementType::f32);
  PositionSet open;
  open.open_from = 100;
  one.subject.positions = open;
  EXPECT_EQ(one.diagnose_after(one.before).verdict, Verdict::not_rotated);
  EXPECT_EQ(one.diagnose({.position = [](int, int t, int) { return 100.0 + t; }}).verdict, Verdict::as_configured);
}

TEST(Hard, HeadsForTokensBesideWrittenPositions) {
  Case one(ElementType::f32, {.tokens = 12});
  one.subject.positions = from(0, 12);
  EXPECT_EQ(one.diagnose({.position = [](int, int, int h) { return h; }}).verdict, Verdict::layout);
}

// As many tokens as heads: the other tensor of the file settles which is which.
TEST(Hard, OneLayoutForAFile) {
  Case one(ElementType::f32, {.tokens = 8});
  const Engine by_head{.position = [](int, int, int h) { return h; }};
  EXPECT_EQ(one.diagnose(by_head).verdict, Verdict::as_configured);
  const Data k = random_data({.tokens = 8, .heads = 2}, one.type);
  const diagnose::Request request = request_of(model_of(*one.rope));
  const diagnose::Diagnosed both = diagnose::diagnose(
      request, {{"q", tensor_of(one.before, one.type), tensor_of(by_head(one.before), one.type)},
                {"k", tensor_of(k, one.type, "bthd", "k"), tensor_of(Engine{}(k), one.type, "bthd", "k")}});
  EXPECT_EQ(both.tensors[0].diagnosis.verdict, Verdict::layout) << both.all.sentence;
  EXPECT_EQ(both.tensors[1].diagnosis.verdict, Verdict::as_configured) << both.all.sentence;
}

TEST(Hard, OnePairTellsPositionTimesSpeedOnly) {
  Case one(ElementType::f32);
  for (std::size_t i = 0; i < one.before.values.size(); ++i) {
    if (i % 64 != 5) one.before.values[i] = 0;
  }
  EXPECT_EQ(one.diagnose({}).verdict, Verdict::as_configured);
  const Diagnosis found = one.diagnose({.clockwise = true});
  expect_said(found, Verdict::cannot_tell);
  EXPECT_FALSE(found.facts.base.has_value());
  EXPECT_FALSE(found.facts.clockwise.has_value());
}

// Each of these was said to be another fault: a factor of each head, another base, noise.
TEST(Hard, TheNearestCauseIsNamed) {
  Case yarn(ElementType::f32);
  yarn.rope = model_rope(Yarn{.factor = 8, .trained_length = 512});
  const Engine right{.speed = frequencies(yarn.rope->rope).inv_freq, .factor = 0.1 * std::log(8.0) + 1};
  Engine late = right, plain{.position = [](int, int t, int) { return t + 3.0; }};
  late.position = [](int, int t, int) { return t < 8 ? t : t + 4.0; };
  plain.factor = right.factor;
  EXPECT_EQ(yarn.diagnose(late).found.at(0).cause, diagnose::Cause::offset) << yarn.diagnose(late).sentence;
  EXPECT_EQ(yarn.diagnose(plain).found.at(1).cause, diagnose::Cause::scaling_left_out);
  Case one(ElementType::f32, {.tokens = 1500, .heads = 2});
  one.rope->heads = one.rope->kv_heads = 2;
  Data after = Engine{}(one.before);
  after.values[after.at(0, 169, 1, 25)] += 3;
  EXPECT_EQ(one.diagnose_after(after).verdict, Verdict::elements) << one.diagnose_after(after).sentence;
}

// ---- numbers far from 1, and those that are none -------------------------------------------------

// Squares of squares of these overflow, or are 0.
TEST(Hard, DoublesFarFromOne) {
  for (const double scale : {1e154, 1e200, 1e300, 1e-80, 1e-100, 1e-300}) {
    Case one(ElementType::f64);
    for (double& value : one.before.values) value *= scale;
    EXPECT_EQ(one.diagnose({}).verdict, Verdict::as_configured) << scale;
    EXPECT_EQ(one.diagnose({.pairs = Pairs::interleaved}).verdict, Verdict::pairing) << scale;
    EXPECT_EQ(one.diagnose({.speed = speeds(500000)}).verdict, Verdict::base) << scale;
  }
}

TEST(Hard, OneElementThatIsHugeIsNoRotation) {
  for (const bool before : {false, true}) {
    Case one(ElementType::f64);
    Data after = Engine{}(one.before);
    (before ? one.before : after).values[one.before.at(0, 3, 1, 2)] = 1e160;
    const Diagnosis found = one.diagnose_after(after);
    expect_said(found, Verdict::cannot_tell);
    EXPECT_TRUE(std::isfinite(found.residual)) << found.sentence;
    EXPECT_EQ(found.sentence.find("nan"), std::string::npos) << found.sentence;
    EXPECT_NE(to_json(diagnose::Diagnosed{{{"q", found}}, found}).find("\"residual\": "), std::string::npos);
  }
}

// Some of many tokens are looked at first: the diagnosis is that of all of them.
TEST(Hard, SomeTokensTellWhatAllDo) {
  Case one(ElementType::f32, {.tokens = 1500, .heads = 2, .head_dim = 32});
  one.rope->rope.head_dim = one.rope->rope.rotary_dim = 32;
  one.rope->heads = one.rope->kv_heads = 2;
  one.subject.used = &*one.rope;
  const Engine right{.speed = speeds(10000, 32)}, interleaved{.speed = right.speed, .pairs = Pairs::interleaved};
  const Engine late{.speed = right.speed, .position = [](int, int t, int) { return t + 7.0; }};
  const Engine engines[] = {right, interleaved, late, {.speed = speeds(9000, 32)}};
  for (const Engine& by : engines) {
    const Tensor x = tensor_of(one.before, one.type), y = tensor_of(by(one.before), one.type);
    const diagnose::Sample all = diagnose::sample_as_given(x, y, one.subject);
    EXPECT_EQ(one.diagnose(by).sentence, diagnose::render({"q"}, diagnose::answer(all, one.subject).diagnosis.found));
  }
  for (const Engine& by : {right, interleaved}) {  // a range of tokens is not lost
    Data after = by(one.before);
    std::fill_n(after.values.begin() + static_cast<std::ptrdiff_t>(after.at(0, 1003, 0, 0)), 4 * 64, 0);
    const std::string sentence = one.diagnose_after(after).sentence;
    EXPECT_NE(sentence.find("in tokens 1003-1006 is zero after the rotation"), std::string::npos) << sentence;
  }
}

// Each file of the type that its tensor is saved as, of an engine that has float32.
TEST(Hard, BeforeAndAfterOfTwoTypes) {
  using enum ElementType;
  const std::pair<ElementType, ElementType> types[] = {{bf16, f32}, {f16, f32},  {f32, bf16},
                                                       {f32, f16},  {bf16, f16}, {f16, bf16}};
  for (const auto& [before, after] : types) {
    for (const int dim : {32, 64}) {
      Case one(f32, {.tokens = 32});
      one.rope->rope.rotary_dim = dim;
      const auto judged = [&, before = before, after = after](double base) {
        Engine engine;
        engine.speed = speeds(base, dim);
        Subject subject;
        subject.used = &*one.rope;
        diagnose::NamedCheck check =
            diagnose::judge({"q", tensor_of(one.before, before), tensor_of(engine(one.before), after)},
                            subject, std::nullopt, {});
        diagnose::say(check);
        return check;
      };
      EXPECT_EQ(judged(10000).outcome, diagnose::Outcome::equal) << judged(10000).sentence;
      EXPECT_EQ(judged(20000).diagnosis.verdict, Verdict::base) << judged(20000).sentence;
    }
  }
}

// One value that is not finite says nothing about the type of the others.
TEST(Hard, CheckFindsTheElementThatIsNotFinite) {
  for (const ElementType type : {ElementType::f16, ElementType::bf16, ElementType::f32}) {
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      Case one(type);
      one.subject.used = &*one.rope;
      Data after = Engine{}(one.before);
      const double right = compared(tensor_of(one.before, type), tensor_of(after, type), one.subject).tolerance;
      for (const bool both : {false, true}) {
        after.values[after.at(0, 3, 1, 2)] = value;
        if (both) one.before.values[after.at(0, 3, 1, 2)] = value;
        const diagnose::Checked checked = compared(tensor_of(one.before, type), tensor_of(after, type), one.subject);
        ASSERT_TRUE(checked.first.has_value());
        EXPECT_EQ(checked.first->token, 3);
        EXPECT_EQ(checked.first->head, 1);
        EXPECT_EQ(checked.first->pair, 2);
        EXPECT_NEAR(checked.tolerance / right, 1, 0.1);
      }
    }
  }
}

// ---- names of tensors ----------------------------------------------------------------------------

TEST(Subject, RolesByName) {
  const std::pair<Role, std::vector<const char*>> roles[] = {
      {Role::q,
       {"q", "query", "xq", "wq", "q_proj", "layers.0.self_attn.q_proj", "Query_States", "q0", "attn.qproj",
        "model/q_rotated", "cached_queries", "q.weight"}},
      {Role::k,
       {"k", "key", "xk", "wk", "k_proj", "layers.0.self_attn.k_proj", "cached_key", "keys_3", "kproj",
        "attn.key.weight", "k1", "past_key_values.0.key"}},
      {Role::v, {"v", "layers.0.v_proj", "past_key_values.0.value", "past_key_values.v.3"}},
      {Role::qkv, {"qkv", "layers.0.qkv_proj", "mixed_qkv"}},
      {Role::other, {"", "tensor", "quick", "kv", "monkey", "qk", "queryish", "very"}}};
  for (const auto& [role, names] : roles) {
    for (const char* name : names) EXPECT_EQ(tools::role_of(name), role) << name;
  }
}

TEST(Subject, LayersByName) {
  const std::pair<const char*, int> named[] = {{"layers.3.q", 3},
                                               {"blk.3.attn_q", 3},
                                               {"h.3.attn.q", 3},
                                               {"model.layers.12.self_attn.q_proj", 12},
                                               {"layer_5_q", 5},
                                               {"q_layer5", 5},
                                               {"Layer-7/q", 7},
                                               {"layer_idx_4.k", 4},
                                               {"transformer.h.0.attn.c_attn", 0},
                                               {"model.decoder.layers.03.q", 3},
                                               {"transformer_encoder.3.q", 3},
                                               {"past_key_values.3.key", 3},
                                               {"key_cache.3", 3},
                                               {"Qcur-3", 3},
                                               {"cache_k_l3", 3},
                                               {"layers[3].q", 3}};
  for (const auto& [name, layer] : named) EXPECT_EQ(tools::layer_of(name), layer) << name;
  for (const char* none : {"", "q", "q_5", "step.3.q", "q_head3", "batch3.k", "wq2", "q_h3", "mtp.layers.0.q",
                           "layers.3.blocks.4.q", "layers.q", "players.3.q", "layers.12345678.q"}) {
    EXPECT_EQ(tools::layer_of(none), std::nullopt) << none;
  }
}

TEST(Subject, TheRopeOfALayer) {
  Model model;
  model.ropes.resize(3);
  ModelRope &local = model.ropes[0], &global = model.ropes[1], &vision = model.ropes[2];
  local.layers = {0, 1};
  global.layers = {2};
  model.parts = {{.path = "text_config", .layers = 4}, {.path = "vision_config", .layers = 5}};
  local.part = global.part = "text_config";
  local.rope.head_dim = global.rope.head_dim = vision.rope.head_dim = 128;
  vision.layers = {0, 1, 2, 3, 4};
  vision.coordinates = true;
  vision.part = "vision_config";
  EXPECT_EQ(tools::rope_of_layer(model, 1), &local);
  EXPECT_EQ(tools::rope_of_layer(model, 2), &global);
  EXPECT_EQ(tools::rope_of_layer(model, 3), nullptr);
  EXPECT_EQ(tools::rope_of_layer(model, 4), &vision);
  EXPECT_EQ(tools::rope_of_layer(model, 5), std::nullopt);
  TensorInfo tensor;
  tensor.shape = {1, 4, 2, 128};
  tensor.name = "visual.blocks.2.q";
  EXPECT_EQ(tools::rope_of_layer(model, 2, &tensor), &vision);
  tensor.name = "layers.2.q";
  EXPECT_EQ(tools::rope_of_layer(model, 2, &tensor), &global);
  vision.rope.head_dim = 80;
  tensor.shape.back() = 80;
  EXPECT_EQ(tools::rope_of_layer(model, 3, &tensor), &vision);
  EXPECT_THROW(tools::subject_of(model, {.layer = 5}), Error);
  EXPECT_THROW(chosen_rope(model, {.layer = 3}), Error);
  EXPECT_EQ(&chosen_rope(model, {.layer = 2}), &global);
  EXPECT_EQ(tools::subject_of(model, {.rope = 1}).used, &global);

  tensor.name = "layers.3.q";
  tensor.shape.back() = 128;
  const tools::Subject bare = tools::subject_of(model, {}, &tensor);
  EXPECT_FALSE(bare.turns);
  EXPECT_TRUE(bare.chosen);
  EXPECT_EQ(bare.used, &local);
  EXPECT_EQ(bare.layer, 3);
  tensor.name = "q";
  const tools::Subject open = tools::subject_of(model, {}, &tensor);
  EXPECT_FALSE(open.chosen);
  EXPECT_EQ(open.used, &local);
  EXPECT_EQ(open.rivals, (std::vector<const ModelRope*>{&local, &global})) << "the tower's heads are narrower";
}

// convert reads the number behind a word for layers in a parameter's name as the layer, as everywhere.
TEST(Subject, TheParameterByItsName) {
  const auto parsed = tools::parse_name("shard.7.model.layers.3.self_attn.k_proj.weight");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->layer, 3);
  EXPECT_EQ(parsed->stack, "shard.7.model.layers");
  EXPECT_EQ(parsed->module, "self_attn");
  EXPECT_EQ(parsed->role, Role::k);
  EXPECT_EQ(tools::parse_name("model.3.q_proj.weight")->layer, 3);
  EXPECT_FALSE(tools::parse_name("model.norm.weight"));
  for (const char* indexer : {"layers.0.indexer.wq_b", "index_k", "q_index", "reindexk"})
    EXPECT_TRUE(tools::names_indexer(indexer)) << indexer;
  for (const char* other : {"index", "index_keys", "token_index", "desk_index"})
    EXPECT_FALSE(tools::names_indexer(other)) << other;
}

// apply reads wk as k, 2 heads of 8 tokens; so does check, which does not take the 8 tokens for the 8 heads of a q.
TEST(Subject, CheckReadsATensorAsApplyDoes) {
  Case one(ElementType::f32, {.tokens = 8, .heads = 2});
  const Engine by_head{.position = [](int, int, int h) { return h; }};
  const diagnose::Request request = request_of(model_of(*one.rope));
  for (const char* name : {"k", "wk", "cached_key", "layers.0.kproj"}) {
    const diagnose::TensorPair pair{name, tensor_of(one.before, one.type, "bthd", name),
                                    tensor_of(by_head(one.before), one.type, "bthd", name)};
    const diagnose::CheckResult result = diagnose::check(request, {pair});
    EXPECT_FALSE(result.equal()) << name;
    EXPECT_EQ(result.tensors[0].checked.layout, "bthd") << name;
  }
}

// The k of MLA is the bare block of one head: of as many tokens as heads, it is not taken for the heads of one token.
TEST(Request, WithoutATensorOrAllPositionsIsRefused) {
  const Data data = random_data({}, ElementType::f32);
  const std::vector<diagnose::TensorPair> pairs = {
      {"q", tensor_of(data, ElementType::f32), tensor_of(data, ElementType::f32)}};
  diagnose::Request request = request_of(model_of(model_rope()));
  test::expect_error("TENSOR", "a pair of tensors", [&] { diagnose::check(request, {}); });
  test::expect_error("TENSOR", "a pair of tensors", [&] { diagnose::diagnose(request, {}); });
  request.positions = PositionSet{.integers = {0, 1, 2}, .tokens = 16};
  test::expect_error("POSITION", "but got 3 of 1 axes", [&] { diagnose::check(request, pairs); });
  request.positions = PositionSet{.integers = std::vector<std::int64_t>(32), .axes = 2, .tokens = 16};
  request.model->ropes[0].rope.axis.assign(32, 2);
  test::expect_error("POSITION", "the rope's 3, but got 32 of 2 axes", [&] { diagnose::check(request, pairs); });
}

TEST(Subject, TheBareKeyIsOneHead) {
  Case one(ElementType::f32, {.tokens = 8, .heads = 1, .head_dim = 64});
  one.rope->rope.head_dim = 96;
  one.rope->first = 32;
  one.rope->kv_heads = 8;
  one.subject.role = Role::k;
  const Diagnosis found = one.diagnose({});
  expect_said(found, Verdict::as_configured);
  EXPECT_EQ(found.facts.layout, "bthd");
}

}  // namespace
}  // namespace rotary::diagnose_tests
