// Tensors as an engine may have rotated them, by a model, with faults and with bits that the input chooses: check and
// diagnose answer in values and sentences, or refuse; what rotary itself rotated does not differ, and an element that
// is far off does.
#include <cstring>
#include <iterator>
#include <optional>

#include "core/tests/fuzz/fuzz.h"
#include "core/tests/support/elements.h"
#include "rotary/checks.h"
#include "values/storage.h"

namespace rotary::fuzz {
namespace {

using diagnose::Outcome;

constexpr const char* configs[] = {
    R"({"model_type":"llama","hidden_size":32,"num_attention_heads":4,"num_key_value_heads":2,"num_hidden_layers":2,)"
    R"("max_position_embeddings":64,"rope_theta":10000.0})",
    R"({"model_type":"gpt_neox","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":1,"rotary_pct":0.5,)"
    R"("max_position_embeddings":64})",
    R"({"model_type":"gptj","n_embd":64,"n_head":4,"n_layer":1,"rotary_dim":8,"n_positions":64})",
    R"({"model_type":"qwen3","hidden_size":64,"num_attention_heads":4,"head_dim":16,"num_hidden_layers":1,)"
    R"("max_position_embeddings":64,"rope_parameters":{"rope_type":"yarn","rope_theta":1e6,"factor":4.0,)"
    R"("original_max_position_embeddings":32}})",
    R"({"model_type":"qwen2_vl","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":1,)"
    R"("max_position_embeddings":64,"rope_scaling":{"type":"mrope","mrope_section":[2,3,3]}})",
    R"({"model_type":"gemma3_text","hidden_size":64,"num_attention_heads":4,"head_dim":16,"num_hidden_layers":7,)"
    R"("max_position_embeddings":64,"rope_theta":1e6,"rope_local_base_freq":1e4})"};

void require_answer(const std::string& sentence) {
  require(!sentence.empty() && sentence.size() < 20000, "a sentence of " + std::to_string(sentence.size()) + " bytes");
  for (const char c : sentence) require(static_cast<unsigned char>(c) >= 0x20, "not one line: " + sentence);
}

template <class Ask>
std::optional<Outcome> outcome(const Ask& ask) {
  try {
    const diagnose::CheckResult result = ask();
    for (const diagnose::NamedCheck& tensor : result.tensors) {
      if (tensor.outcome != Outcome::equal) require_answer(tensor.sentence);
      if (tensor.checked.equal) require(tensor.checked.max_error <= tensor.checked.tolerance, "equal beyond tolerance");
      require(tensor.checked.equal || tensor.outcome != Outcome::equal, "equal, but elements are off");
    }
    to_json(result);
    return result.outcome();
  } catch (const Error& error) {
    require_refusal(error, "[", {"SHAPE", "DTYPE", "TENSOR", "ROPE", "POSITION", "VALUE", "LENGTH"});
    return std::nullopt;
  }
}

Tensor tensor(ElementType type, std::vector<std::int64_t> shape, const void* data) {
  Tensor made;
  made.name = "q";
  made.type = type;
  made.shape = std::move(shape);
  made.bytes = static_cast<std::uint64_t>(made.elements()) * bits_of(type) / 8;
  made.data.resize(made.bytes);
  std::memcpy(made.data.data(), data, made.bytes);
  return made;
}

// A tensor of f32 values rounded to a storage type.
Tensor stored(const std::vector<float>& values, DType dtype, const std::vector<std::int64_t>& shape) {
  Tensor made;
  detail::by_type(dtype, [&]<class T>(T) {
    std::vector<T> rounded;
    for (const float value : values) rounded.push_back(detail::encode<T>(value));
    made = tensor(element_type(dtype), shape, rounded.data());
  });
  return made;
}

// A tensor with some of its bytes replaced by the rest of the input.
void overwrite(Tensor& changed, Choices& choices) {
  const std::size_t at = static_cast<std::size_t>(choices.below(256)) % changed.data.size();
  const std::string_view rest = choices.rest();
  const std::size_t count = std::min(rest.size(), changed.data.size() - at);
  if (count > 0) std::memcpy(changed.data.data() + at, rest.data(), count);
}

constexpr int no_fault = 0, far_off = 1, bits = 2;

// The model's rope as an engine with this fault has it.
Rope with_fault(Rope rope, int fault, int much) {
  if (fault == 3) rope.pairing = rope.pairing == Pairing::half ? Pairing::interleaved : Pairing::half;
  if (fault == 4) rope.base *= 1 + much;
  if (fault == 5) rope.clockwise = !rope.clockwise;
  if (fault == 6) rope.scaling = Linear{1.0 + much};
  if (fault == 7) rope.attention_factor = 1 + much / 4.0;
  return rope;
}

void check_tensors(Choices& choices) {
  diagnose::Request request;
  request.operation = "check";
  request.model = parse_config(configs[choices.below(std::size(configs))]);
  const ModelRope& used = request.model->ropes[0];
  request.rope = 0;
  const DType dtype = tests::dtypes[static_cast<std::size_t>(choices.below(3))];
  const int heads = 1 + choices.below(4), tokens = 1 + choices.below(12), first = choices.below(40);
  const int fault = choices.below(9), much = choices.below(8);
  const int head_dim = used.rope.head_dim;
  const Layout layout = choices.coin() ? bhtd(1, heads, tokens, head_dim) : bthd(1, tokens, heads, head_dim);
  const bool transposed = layout.head_stride != head_dim;
  request.layout = transposed ? "bhtd" : "bthd";
  request.same_on_every_axis = true;
  request.positions = parse_ranges(std::to_string(first) + ":" + std::to_string(first + tokens));

  tests::Random random(static_cast<std::uint64_t>(choices.below(256)));
  std::vector<float> values(static_cast<std::size_t>(heads * tokens * head_dim));
  for (float& value : values) value = static_cast<float>(random() % 4096) / 1024 - 2;
  const std::vector<std::int64_t> shape{1, transposed ? heads : tokens, transposed ? tokens : heads, head_dim};
  const Tensor before = stored(values, dtype, shape);
  Tensor after = before;
  const Frequencies f = frequencies(with_fault(used.rope, fault, much), 64);
  const Heads out{after.data.data(), dtype, layout};
  rotate(slice(out, used.first, used.rope.rotary_dim), Table(f, positions(first + (fault == 8 ? much : 0), tokens)));
  if (fault == far_off) {
    const std::size_t each = size_of(dtype), place = static_cast<std::size_t>(choices.below(256)) % values.size();
    const Tensor far = stored({1000}, dtype, {1});
    std::memcpy(after.data.data() + place * each, far.data.data(), each);
  }
  if (fault == bits) overwrite(after, choices);

  const std::optional<Outcome> found = outcome([&] { return check(request, {{"q", before, after}}); });
  if (fault == no_fault) require(found && *found != Outcome::differs, "what rotary rotated must not differ");
  if (fault == far_off) require(found == Outcome::differs, "an element that is far off must differ");
  if (choices.coin()) return;
  request.operation = "diagnose";
  if (choices.coin()) request.model.reset();
  try {
    const diagnose::Diagnosed diagnosed = diagnose::diagnose(request, {{"q", before, after}});
    require_answer(diagnosed.all.sentence);
    to_json(diagnosed);
  } catch (const Error& error) {
    require_refusal(error, "[", {"SHAPE", "DTYPE", "TENSOR", "ROPE", "POSITION", "VALUE"});
  }
}

// A table or an inv_freq of any bits beside the model's own.
void check_alone(Choices& choices) {
  diagnose::Request request;
  request.operation = "check";
  request.model = parse_config(configs[choices.below(std::size(configs))]);
  const Frequencies f = frequencies(request.model->ropes[0].rope, 64);
  const int rows = 1 + choices.below(16);
  const bool changes = choices.coin();
  if (choices.coin()) {
    std::vector<double> speeds = f.inv_freq;
    Tensor as_bits = tensor(ElementType::f64, {static_cast<std::int64_t>(speeds.size())}, speeds.data());
    if (changes) overwrite(as_bits, choices);
    std::memcpy(speeds.data(), as_bits.data.data(), as_bits.data.size());
    const std::optional<Outcome> found = outcome([&] { return check_inv_freq(request, speeds); });
    if (!changes) require(found && *found != Outcome::differs, "the model's own inv_freq must not differ");
    return;
  }
  const Table table(f, positions(0, rows));
  Tensor cos = tensor(ElementType::f32, {rows, f.pairs()}, table.cos().data());
  const Tensor sin = tensor(ElementType::f32, {rows, f.pairs()}, table.sin().data());
  if (changes) overwrite(cos, choices);
  const std::optional<Outcome> found = outcome([&] { return check_table(request, cos, sin); });
  if (!changes) require(found && *found != Outcome::differs, "the model's own table must not differ");
}

void check_steps(Choices& choices) {
  std::vector<diagnose::RunStep> steps;
  for (int s = choices.below(6); s >= 0; --s) {
    diagnose::RunStep& step = steps.emplace_back();
    step.name = "step" + std::to_string(steps.size());
    step.positions.resize(static_cast<std::size_t>(choices.below(4)));
    const int tokens = choices.below(6);
    const int kinds = choices.below(16);
    for (auto& axis : step.positions) {
      for (int t = choices.below(32) == 1 ? tokens + 1 : tokens; t > 0; --t) axis.push_back(choices.below(9) - 1);
    }
    for (int t = 0; t < tokens; ++t) {
      if ((kinds & 1) != 0) step.sequences.push_back(choices.below(3));
      if ((kinds & 2) != 0) step.drafts.push_back(choices.below(3));
      if ((kinds & 4) != 0) step.slots.push_back(choices.below(6) - 1);
    }
  }
  try {
    const diagnose::RunCheck found = check_run(steps);
    require_answer(found.sentence());
    to_json(found);
  } catch (const Error& error) {
    require_refusal(error, "[check] ", {"SHAPE", "VALUE", "POSITION"});
  }
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (int i = 0; i < 48; ++i) {  // the question, the config, the type, heads, tokens, first, the fault, how much of it
    std::string text;
    for (const int choice : {i % 8, i, i / 3, 1 + i, 11 - i % 5, i, i % 9, i, i % 2, i})
      text += static_cast<char>(choice);
    texts.push_back(text + std::string(8, static_cast<char>(i)));
  }
  return texts;
}

std::vector<std::string> words() {
  return {std::string(4, '\0'), std::string("\x00\x00\xC0\x7F", 4), "\xFF\xFF\x7F\x7F", "\x01\x02", "\xFF"};
}

void one(const std::string& input) {
  Choices choices(input);
  const int question = choices.below(8);
  question < 6 ? check_tensors(choices) : question == 6 ? check_alone(choices) : check_steps(choices);
}

}  // namespace rotary::fuzz
