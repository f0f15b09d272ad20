// A table alone and the positions of a run. Tables are made by the formula in double, runs by hand.
#include "rotary/checks.h"

#include <array>
#include <cmath>
#include <numeric>

#include "files/tests/file_helpers.h"
#include "tools/tests/diagnose/case.h"

namespace rotary::diagnose_tests {
namespace {

using diagnose::CheckResult;
using diagnose::Outcome;
using diagnose::RunCause;
using diagnose::RunStep;
using Values = std::vector<double>;

constexpr int rows = 300;

// ---- tables --------------------------------------------------------------------------------------

struct Made {
  Values speed = speeds();
  double first = 0, factor = 1;
  ElementType type = ElementType::f32;
  bool in_float32 = false;                  // angles and cos as engines compute them
  double (*rounds)(double) = nullptr;       // the entries
  int copies = 1;                           // 2: in halves, 3: side by side
  std::array<double, 2> sin_by = {1, 1};    // for each copy
};

Tensor table_tensor(const Values& values, ElementType type, std::int64_t columns) {
  Data data{1, static_cast<int>(std::ssize(values) / columns), 1, static_cast<int>(columns), values};
  for (double& value : data.values) value = to_type(value, type);
  Tensor tensor = tensor_of(data, type, "bthd");
  tensor.shape = {std::ssize(values) / columns, columns};
  return tensor;
}

std::array<Tensor, 2> made(const Made& how) {
  const std::size_t pairs = how.speed.size(), columns = pairs * (how.copies > 1 ? 2 : 1);
  Values cos, sin;
  for (int row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const std::size_t pair = how.copies == 3 ? column / 2 : column % pairs;
      const std::size_t copy = how.copies == 3 ? column % 2 : column / pairs;
      double angle = (how.first + row) * how.speed[pair];
      if (how.in_float32) angle = static_cast<float>(how.first + row) * static_cast<float>(how.speed[pair]);
      cos.push_back(how.factor * std::cos(angle));
      sin.push_back(how.factor * std::sin(angle) * how.sin_by[copy]);
      if (how.rounds != nullptr) cos.back() = how.rounds(cos.back()), sin.back() = how.rounds(sin.back());
    }
  }
  const auto width = static_cast<std::int64_t>(columns);
  return {table_tensor(cos, how.type, width), table_tensor(sin, how.type, width)};
}

diagnose::Request asking(std::vector<ModelRope> ropes = {model_rope()}) {
  return request_of({.model_type = {}, .parts = {{.path = "", .context = 4096}}, .ropes = std::move(ropes)});
}

void expect(const CheckResult& found, Outcome outcome, Cause cause) {
  const auto& one = found.tensors.at(0);
  EXPECT_EQ(name(one.outcome), std::string(name(outcome))) << one.sentence;
  EXPECT_EQ(name(one.diagnosis.found.at(0).cause), std::string(name(cause))) << one.sentence;
  const bool has_place = cause != Cause::table_of_other_pairing && cause != Cause::block;
  EXPECT_EQ(one.checked.first.has_value(), outcome == Outcome::differs && has_place);
}

void expect(const Made& how, Outcome outcome, Cause cause, const diagnose::Request& request = asking()) {
  const auto [cos, sin] = made(how);
  expect(diagnose::check_table(request, cos, sin), outcome, cause);
}

double to_bf16_and_back(double value) { return to_type(value, ElementType::bf16); }

Values times(Values values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

TEST(TableAlone, is_right_in_every_form_and_type) {
  for (const int copies : {1, 2, 3}) {
    const auto pairing = copies == 3 ? Pairing::interleaved : Pairing::half;
    expect({.copies = copies}, Outcome::equal, Cause::as_asked, asking({model_rope(Unscaled{}, pairing)}));
  }
  for (const ElementType type : {ElementType::f64, ElementType::f16, ElementType::bf16})
    expect({.type = type, .in_float32 = true}, Outcome::equal, Cause::as_asked);
  const auto [cos, sin] = made({.type = ElementType::f64});
  Values joined;
  for (std::size_t i = 0; i < 2 * cos.as<double>().size(); ++i)
    joined.push_back((i / 32 % 2 == 0 ? cos : sin).as<double>()[i / 64 * 32 + i % 32]);
  expect(diagnose::check_table(asking(), table_tensor(joined, ElementType::f32, 64), {}), Outcome::equal,
         Cause::as_asked);
}

TEST(TableAlone, is_wrong_by_its_cause) {
  expect({.speed = speeds(500000)}, Outcome::differs, Cause::base);
  expect({.first = 1}, Outcome::differs, Cause::offset);
  expect({.rounds = to_bf16_and_back}, Outcome::differs, Cause::coarse_table);
  expect({.copies = 3}, Outcome::differs, Cause::table_of_other_pairing);
  expect({.sin_by = {-1, -1}}, Outcome::differs, Cause::direction);
  expect({.copies = 2, .sin_by = {1, 0}}, Outcome::differs, Cause::without_second_sin);
  Values coarse = speeds();
  for (double& speed : coarse) speed = to_bf16_and_back(speed);
  expect({.speed = coarse}, Outcome::differs, Cause::coarse_inv_freq);
  const diagnose::Request yarn = asking({model_rope(Yarn{.factor = 4, .trained_length = 1024})});
  const Values scaled = frequencies(yarn.model->ropes[0].rope, 0).inv_freq;
  const double factor = 0.1 * std::log(4) + 1;
  expect({.speed = scaled, .factor = factor}, Outcome::equal, Cause::as_asked, yarn);
  expect({.speed = scaled}, Outcome::differs, Cause::without_factor, yarn);
  expect({.speed = scaled, .factor = factor * factor}, Outcome::differs, Cause::factor_twice, yarn);
  expect({.factor = factor}, Outcome::differs, Cause::scaling_left_out, yarn);
}

// Engines store sin or -sin for a rope that turns clockwise.
TEST(TableAlone, of_a_clockwise_rope_has_either_sign) {
  ModelRope rope = model_rope();
  rope.rope.clockwise = true;
  const diagnose::Request request = asking({rope});
  for (const double sign : {1., -1.}) {
    expect({.sin_by = {sign, sign}}, Outcome::equal, Cause::as_asked, request);
    expect({.speed = speeds(500000), .sin_by = {sign, sign}}, Outcome::differs, Cause::base, request);
  }
  expect(diagnose::check_inv_freq(request, speeds()), Outcome::equal, Cause::as_asked);
}

TEST(TableAlone, names_the_entry_that_is_off) {
  auto [cos, sin] = made({});
  sin.as<float>()[77 * 32 + 5] += 0.01F;
  const CheckResult found = diagnose::check_table(asking(), cos, sin);
  expect(found, Outcome::differs, Cause::table_entries);
  const auto first = found.tensors[0].checked.first.value();
  EXPECT_EQ(first.token, 77);
  EXPECT_EQ(first.pair, 5);
  EXPECT_EQ(first.element, 32 + 5);
}

TEST(TableAlone, says_the_largest_error_whatever_is_allowed_there) {
  auto [cos, sin] = made({});
  sin.as<float>()[0] += 0.01F;
  cos.as<float>()[299 * 32] += 0.5F;
  EXPECT_NEAR(diagnose::check_table(asking(), cos, sin).tensors[0].checked.error, 0.5, 0.001);
}

TEST(TableAlone, of_several_ropes_says_which_it_is_of) {
  const diagnose::Request request = asking({model_rope(), model_rope(Unscaled{}, Pairing::half, 1e6)});
  const auto [cos, sin] = made({.speed = speeds(1e6)});
  const auto found = diagnose::check_table(request, cos, sin).tensors.at(0);
  EXPECT_EQ(found.outcome, Outcome::undecided);
  EXPECT_EQ(found.rope, "rope 1 of 2");
  for (const int rope : {0, 1}) {
    diagnose::Request chosen = request;
    chosen.rope = rope;
    EXPECT_EQ(diagnose::check_table(chosen, cos, sin).outcome(), rope == 1 ? Outcome::equal : Outcome::differs);
  }
}

TEST(TableAlone, at_position_0_shows_nothing_and_bad_shapes_are_refused) {
  const Tensor ones = table_tensor(Values(32, 1.0), ElementType::f32, 32);
  const Tensor zeros = table_tensor(Values(32, 0.0), ElementType::f32, 32);
  EXPECT_EQ(diagnose::check_table(asking(), ones, zeros).outcome(), Outcome::undecided);
  const Tensor narrow = table_tensor(Values(31, 0.0), ElementType::f32, 31);
  test::expect_error("SHAPE", "cos and sin alike", [&] { diagnose::check_table(asking(), ones, narrow); });
  const Tensor odd = table_tensor(Values(32, std::nan("")), ElementType::f32, 32);
  test::expect_error("TENSOR", "must be finite", [&] { diagnose::check_table(asking(), ones, odd); });
}

TEST(InvFreqAlone, is_held_to_float32_whatever_stores_it) {
  const auto check = [](const Values& values, Outcome outcome, Cause cause) {
    expect(diagnose::check_inv_freq(asking(), values), outcome, cause);
  };
  Values single = speeds(), coarse = speeds(), one = speeds();
  for (double& speed : single) speed = static_cast<float>(speed);
  for (double& speed : coarse) speed = to_bf16_and_back(speed);
  one[5] *= 1.001;
  check(speeds(), Outcome::equal, Cause::as_asked);
  check(single, Outcome::equal, Cause::as_asked);
  check(coarse, Outcome::differs, Cause::coarse_inv_freq);
  check(one, Outcome::differs, Cause::some_pairs_other);
  check(speeds(500000), Outcome::differs, Cause::base);
  check(times(speeds(), 0.125), Outcome::differs, Cause::linear);
  check(speeds(10000, 32), Outcome::differs, Cause::block);
  EXPECT_LT(diagnose::check_inv_freq(asking(), times(speeds(), 1.0 / 3)).tensors[0].diagnosis.residual, 1e-6);
}

// ---- two engines ---------------------------------------------------------------------------------

TEST(TwoEngines, are_told_apart_where_one_is_as_asked) {
  const Data before = random_data({}, ElementType::f32);
  const auto expect_cause = [&](const Engine& first, const Engine& second, Cause cause, const std::string& words) {
    diagnose::Request request = asking();
    request.rotated = true;
    const auto tensor = [&](const Engine& engine) { return tensor_of(engine(before), ElementType::f32, "bthd"); };
    const CheckResult found = diagnose::check(request, {{"q", tensor(first), tensor(second)}});
    EXPECT_EQ(found.outcome(), Outcome::differs);
    EXPECT_STREQ(name(found.tensors[0].diagnosis.found[0].cause), name(cause)) << found.tensors[0].sentence;
    EXPECT_NE(found.tensors[0].sentence.find(words), std::string::npos) << found.tensors[0].sentence;
  };
  const Engine right, base{.speed = speeds(500000)}, clockwise{.clockwise = true};
  expect_cause(right, base, Cause::base, "base 500000; the model asks base 10000");
  expect_cause(right, base, Cause::base, "; this is found in the second file, if the other one is as the config asks");
  expect_cause(base, right, Cause::base, "; this is found in the first file, if the other one is as the config asks");
  expect_cause(right, clockwise, Cause::direction, "second file");
}

// ---- runs ----------------------------------------------------------------------------------------

std::vector<double> counted(double first, int count) {
  std::vector<double> list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), first);
  return list;
}

// A call for some sequences: the number of each, its first position, its tokens, and how many of them are drafts.
RunStep step(const std::vector<std::array<int, 4>>& pieces, std::size_t axes = 1) {
  RunStep made{.name = "step", .positions = {{}}};
  for (const auto& [sequence, first, count, drafts] : pieces) {
    for (int i = 0; i < count; ++i) {
      made.positions[0].push_back(first + i);
      made.sequences.push_back(sequence);
      made.drafts.push_back(i >= count - drafts ? 1 : 0);
    }
  }
  made.positions.resize(axes, made.positions[0]);
  return made;
}

// 4 words, a picture of 4 x 6 tokens, 3 words: 31 tokens at positions up to 12.
RunStep with_picture() {
  RunStep made = step({{0, 0, 4, 0}}, 3);
  for (int i = 0; i < 24; ++i) {
    made.positions[0].push_back(4);
    made.positions[1].push_back(4 + i / 6);
    made.positions[2].push_back(4 + i % 6);
  }
  for (std::vector<double>& axis : made.positions) {
    for (const double place : counted(10, 3)) axis.push_back(place);
  }
  made.sequences.clear();
  made.drafts.clear();
  return made;
}

void expect_run(const std::vector<RunStep>& steps, RunCause cause, Outcome outcome = Outcome::differs) {
  const diagnose::RunCheck found = diagnose::check_run(steps);
  EXPECT_EQ(name(found.outcome()), std::string(name(outcome))) << found.sentence();
  EXPECT_EQ(name(found.faults.empty() ? RunCause::goes_on : found.faults[0].cause), std::string(name(cause)));
}

TEST(Run, goes_on_in_chunks_decoding_drafts_and_pictures) {
  const auto right = [](const std::vector<RunStep>& steps) { expect_run(steps, RunCause::goes_on, Outcome::equal); };
  right({step({{7, 0, 16, 0}}), step({{7, 16, 9, 0}, {8, 0, 7, 0}}), step({{7, 25, 1, 0}, {8, 7, 1, 0}}),
         step({{8, 8, 1, 0}, {7, 26, 1, 0}})});
  for (const int accepted : {0, 1, 2, 3})
    right({step({{7, 0, 10, 0}}), step({{7, 10, 4, 3}}), step({{7, 11 + accepted, 4, 3}})});
  right({with_picture(), step({{0, 13, 1, 0}}, 3), step({{0, 14, 1, 0}}, 3)});
  expect_run({with_picture()}, RunCause::goes_on, Outcome::undecided);
}

TEST(Run, is_wrong_by_its_cause) {
  expect_run({step({{7, 0, 10, 0}}), step({{7, 12, 1, 0}})}, RunCause::jumps);
  expect_run({step({{7, 0, 10, 0}}), step({{7, 4, 1, 0}})}, RunCause::goes_back);
  expect_run({step({{7, 0, 10, 0}}), step({{7, 9, 1, 0}})}, RunCause::stands_still);
  expect_run({step({{7, 0, 10, 0}}), step({{7, 0, 1, 0}})}, RunCause::restarts);
  expect_run({step({{7, 0, 10, 0}}), step({{7, 10, 4, 3}}), step({{7, 10, 4, 3}})}, RunCause::stands_still);
  expect_run({step({{7, 0, 10, 0}}), step({{7, 10, 4, 3}}), step({{7, 15, 1, 0}})}, RunCause::jumps);
  expect_run({step({{7, 0, 10, 0}, {8, 0, 5, 0}}), step({{7, 5, 1, 0}, {8, 10, 1, 0}})}, RunCause::of_another_sequence);
  expect_run({with_picture(), step({{0, 31, 1, 0}}, 3)}, RunCause::delta_left_out);
  expect_run({with_picture(), step({{0, 13 - 18, 1, 0}}, 3)}, RunCause::delta_twice);
  RunStep gap = step({{7, 0, 10, 0}});
  gap.positions[0][6] = 5;
  expect_run({gap, step({{7, 10, 1, 0}})}, RunCause::stands_still);
}

TEST(Run, finds_a_key_that_is_written_over) {
  RunStep prompt = with_picture(), draft = step({{0, 13, 3, 2}}, 3), next = step({{0, 14, 1, 0}}, 3);
  prompt.slots.resize(31);
  std::iota(prompt.slots.begin(), prompt.slots.end(), 0);
  draft.slots = {31, 32, 33};
  next.slots = {32};  // the slot of a draft that was not taken
  expect_run({prompt, draft, next}, RunCause::goes_on, Outcome::equal);
  draft.slots = {31, 14, 15};  // by their positions
  expect_run({prompt, draft, next}, RunCause::overwrites);
}

TEST(Run, is_read_in_the_order_of_numbers) {
  const test::ScratchFolder folder;
  const auto write = [&](const std::string& file, const std::vector<std::int64_t>& positions) {
    write_npy(folder / file, test::make_tensor("", ElementType::i64, {std::ssize(positions)}, positions));
  };
  write("rank0-step-10.npy", {5});
  write("rank0-step-9.npy", {0, 1, 2, 3, 4});
  EXPECT_EQ(diagnose::check_run(diagnose::read_run(folder.path())).outcome(), Outcome::equal);
  RunStep uneven = step({{7, 0, 3, 0}});
  uneven.sequences.pop_back();
  test::expect_error("SHAPE", "one value for each token", [&] { diagnose::check_run({uneven}); });
  RunStep short_axis = with_picture();
  short_axis.positions[1].clear();
  test::expect_error("SHAPE", "one value for each token", [&] { diagnose::check_run({short_axis}); });
}

TEST(Run, is_read_as_one_row_of_tokens_on_each_axis) {
  const test::ScratchFolder folder;
  const auto read = [&](const std::vector<std::int64_t>& positions, const std::vector<std::int64_t>& sequences) {
    std::vector<Tensor> tensors;
    for (const auto& [name, shape] : {std::pair("positions", positions), {"sequences", sequences}}) {
      const auto count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies());
      const std::vector<std::int64_t> zeros(static_cast<std::size_t>(count));
      tensors.push_back(test::make_tensor(name, ElementType::i64, shape, zeros));
    }
    write_tensors(folder / "0.safetensors", tensors);
    return diagnose::read_run(folder.path())[0].positions.size();
  };
  EXPECT_EQ(read({4}, {4}), 1U);
  EXPECT_EQ(read({3, 1, 4}, {1, 4}), 3U);
  test::expect_error("SHAPE", "but got [3, 2, 4]", [&] { read({3, 2, 4}, {8}); });
  test::expect_error("SHAPE", "sequences of a step must be [tokens]", [&] { read({3, 8}, {2, 4}); });
}

}  // namespace
}  // namespace rotary::diagnose_tests
