// Notes on facts beside the ropes: scales of the attention, inconsistent lengths, a params.json in the same folder.
#include <cmath>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "rotary/error.h"
#include "stages.h"
#include "text/io.h"
#include "values/scaling_fields.h"

namespace rotary::files {
namespace {

const Yarn* yarn_of(const ModelRope& used) { return std::get_if<Yarn>(&used.rope.scaling); }

// DeepSeek's attention and similar ones: softmax_scale * M(mscale_all_dim)^2.
void set_softmax_factor(const Part& part, ModelRope& used) {
  const Yarn* yarn = yarn_of(used);
  if (yarn == nullptr || !is_mla(part) || yarn->mscale_all_dim.value_or(0) == 0 || !(yarn->factor > 1)) return;
  const double scale = 0.1 * *yarn->mscale_all_dim * std::log(yarn->factor) + 1;
  used.softmax_factor = scale * scale;
  const bool own_code = part.family.type == "deepseek_v2";
  part.note(NoteKind::attention, "attention multiplies its softmax scale by (0.1 * mscale_all_dim * ln(factor) + ",
            "1)^2 = ", detail::significant(used.softmax_factor, 7),
            (own_code ? " in DeepSeek's own code (transformers leaves it out)" : ""),
            ", beside the attention factor; it is not part of the rotation");
}

// 500 for 500000: the smallest base of a published text model is 1000 (Nomic's).
void note_small_base(const Part& part, const ModelRope& used, std::int64_t context) {
  if (context < 1024 || used.rope.base >= 1000 || !used.rope.inv_freq.empty()) return;
  part.note(NoteKind::warning, "the base ", spelled(used.rope.base),
            " is smaller than that of any text model known here, 1000 or more");
}

using Value = std::pair<std::string, std::string>;  // the name and the text of a rope's value

std::string to_text(double value) { return spelled(value); }
std::string to_text(std::int64_t value) { return std::to_string(value); }
std::string to_text(bool value) { return value ? "true" : "false"; }

std::vector<Value> values_of(const Model& model) {
  const ModelRope& used = model.ropes.front();
  const Rope& rope = used.rope;
  std::vector<Value> values = {{"pairing", name(rope.pairing)},
                               {"base", spelled(rope.base)},
                               {"scaling", name(rope.scaling)},
                               {"heads", std::to_string(used.heads)},
                               {"kv_heads", std::to_string(used.kv_heads)},
                               {"head_dim", std::to_string(rope.head_dim)},
                               {"rotary_dim", std::to_string(rope.rotary_dim)},
                               {"first", std::to_string(used.first)},
                               {"layers", std::to_string(used.layers.size())}};
  if (const auto context = part_of(model, used.part).context; context > 0)
    values.push_back({"context", std::to_string(context)});
  scalings::for_each_field(rope.scaling, [&](const auto& field, const auto& value) {
    using Held = std::decay_t<decltype(value)>;
    if constexpr (std::is_arithmetic_v<Held>) values.push_back({field.name, to_text(value)});
  });
  try {
    values.push_back({"attention factor", spelled(frequencies(rope, 0).attention_factor)});
  } catch (const Error&) {  // a rope that cannot rotate is an error only when it is used
  }
  return values;
}

// "pairing half (params.json: interleaved)", for each value of rope 0 that both have and that differs.
std::string differences(const Model& one, const Model& other) {
  std::string text;
  const std::vector<Value> others = values_of(other);
  for (const auto& [word, own] : values_of(one)) {
    for (const auto& [same, its] : others) {
      if (same == word && its != own)
        text += (text.empty() ? "" : ", ") + word + ' ' + own + " (params.json: " + its + ")";
    }
  }
  return text;
}

}  // namespace

void set_softmax_factors(const Part& part, std::vector<ModelRope>& ropes) {
  for (ModelRope& used : ropes) set_softmax_factor(part, used);
}

void note_reach(const Part& part, const std::vector<ModelRope>& ropes, std::int64_t context) {
  for (const ModelRope& used : ropes) {
    note_small_base(part, used, context);
    const Yarn* yarn = yarn_of(used);
    if (yarn == nullptr || context == 0 || yarn->trained_length == 0) continue;
    const double reach = yarn->factor * static_cast<double>(yarn->trained_length);
    if (std::fabs(reach - static_cast<double>(context)) < 1) continue;
    part.note(NoteKind::warning, "yarn reaches factor * trained_length = ", spelled(yarn->factor), " * ",
              yarn->trained_length, " = ", spelled(reach), " tokens, but max_position_embeddings is ", context,
              ": the factor counts", (context == yarn->trained_length ? "" : " (transformers warns of such files)"));
  }
}

Note note_beside(const Model& model, const std::filesystem::path& params, const ConfigOptions& options) {
  const auto note = [](const std::string& found) {
    return Note{"", NoteKind::compared, "params.json lies beside config.json, which is read; " + found};
  };
  Model other;
  try {
    other = read_config(params, options);
  } catch (const Error& error) {
    return note("params.json cannot be read: " + printable(error.what()) + ".");
  }
  if (model.ropes.empty() || other.ropes.empty()) {
    return note(model.ropes.size() == other.ropes.size() ? "neither has a rope." : "only one of the two has a rope.");
  }
  const std::string differ = differences(model, other);
  if (differ.empty()) return note("both describe the same rope.");
  return note("they disagree: " + differ + ". Each goes with the weights that it was published with.");
}

}  // namespace rotary::files
