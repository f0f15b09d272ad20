// params.json of Mistral and of Meta, and the options of llama.cpp.
#include "steps.h"
#include "values/number_text.h"

namespace rotary::extend {
namespace {

using detail::spelled;

// The attention factor is 1, whatever the factor.
bool has_unit_scale(const Yarn& yarn) { return yarn.mscale == 1.0 && yarn.mscale_all_dim == 1.0; }
bool has_own_scale(const Yarn& yarn) { return yarn.attention_factor || yarn.mscale || yarn.mscale_all_dim; }

// Returns why the file cannot say it; "": it can.
std::string write_mistral(const Situation& situation, const Scaling& planned, std::int64_t context,
                          files::JsonText& text) {
  const auto* yarn = std::get_if<Yarn>(&planned);
  if (yarn == nullptr && !std::holds_alternative<Unscaled>(planned)) {
    return "Mistral's params.json takes yarn, or another base (ntk), and no other scaling";
  }
  if (yarn == nullptr) {
    text.remove({"yarn"});
  } else if (!yarn->truncate || (has_own_scale(*yarn) && !has_unit_scale(*yarn))) {
    return "the yarn of Mistral's params.json takes no truncate and no attention factor of its own";
  } else {
    write_object(text, {"yarn"},
                 {{"original_max_position_embeddings", std::to_string(yarn->trained_length)},
                  {"factor", spelled(yarn->factor)},
                  {"apply_scale", has_unit_scale(*yarn) ? "false" : "true"},
                  {"beta", spelled(yarn->beta_fast)},
                  {"alpha", spelled(yarn->beta_slow)}});
  }
  if (situation.first().context != context) text.set({length_key(situation.root)}, std::to_string(context));
  return "";
}

std::string write_meta(const Situation& situation, const Scaling& planned, files::JsonText& text) {
  const auto* llama3 = std::get_if<Llama3>(&planned);
  if (llama3 == nullptr && !std::holds_alternative<Unscaled>(planned)) {
    return "Meta's params.json takes llama3, or another base (ntk), and no other scaling";
  }
  if (llama3 == nullptr) {
    for (const char* key : {"rope_scaling_factor", "rope_high_freq_factor"}) text.remove({key});
    if (text.raw({"use_scaled_rope"})) text.set({"use_scaled_rope"}, "false");
    return "";
  }
  if (llama3->trained_length != 8192 || llama3->low != 1) {
    return "Meta's code scales from 8192 tokens with low_freq_factor 1, whatever params.json says";
  }
  if (text.raw({"use_scaled_rope"}) != "true") text.set({"use_scaled_rope"}, "true");
  if (situation.scaling() != planned) text.set({"rope_scaling_factor"}, spelled(llama3->factor));
  if (text.raw({"rope_high_freq_factor"}) || llama3->high != 4) {
    text.set({"rope_high_freq_factor"}, spelled(llama3->high));
  }
  return "";
}

}  // namespace

bool is_params(const Situation& situation) {
  const files::Json& root = situation.root;
  return situation.first().model_type.empty() && root.is_object() && !root.contains("model_type") &&
         (root.contains("dim") || root.contains("n_heads"));
}

Written in_params(const Situation& situation, const MethodPlan& plan) {
  files::JsonText text(situation.request.config);
  const Rope& planned = plan.ropes.front().planned;
  const bool meta = situation.request.model.model_type == "llama";
  Written written;
  written.wrong = meta ? write_meta(situation, planned.scaling, text)
                       : write_mistral(situation, planned.scaling, plan.max_position_embeddings, text);
  if (!written.wrong.empty()) return written;
  if (planned.base != situation.first().rope.base) text.set({"rope_theta"}, real(planned.base));
  written.config = text.text();
  read_back(situation, plan, written);
  return written;
}

std::string llama_cpp_options(const Situation& situation, const MethodPlan& plan) {
  // Factors by pair are a tensor of the file, and MLA has a temperature in its softmax: options reach neither.
  if (situation.targets.size() != 1 || situation.first().first != 0 || situation.of_llama3_or_lists()) return "";
  const Rope& rope = plan.ropes.front().planned;
  std::string options = "--ctx-size " + std::to_string(situation.request.context);
  if (rope.base != situation.first().rope.base) options += " --rope-freq-base " + spelled(rope.base);
  const std::string scale = " --rope-scale " + spelled(plan.factor);
  if (std::holds_alternative<Unscaled>(rope.scaling)) return options + " --rope-scaling none";
  if (std::holds_alternative<Linear>(rope.scaling)) return options + " --rope-scaling linear" + scale;
  const auto* yarn = std::get_if<Yarn>(&rope.scaling);
  // Its factors for YaRN would concern the layers with a window too.
  if (yarn == nullptr || !yarn->truncate || has_own_scale(*yarn) || !situation.left.empty()) return "";
  options += " --rope-scaling yarn" + scale + " --yarn-orig-ctx " + std::to_string(yarn->trained_length);
  if (yarn->beta_fast != 32) options += " --yarn-beta-fast " + spelled(yarn->beta_fast);
  if (yarn->beta_slow != 1) options += " --yarn-beta-slow " + spelled(yarn->beta_slow);
  return options;
}

}  // namespace rotary::extend
