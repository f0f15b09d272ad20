#include "steps.h"

#include "files/config/stages.h"
#include "values/number_text.h"

namespace rotary::extend {
namespace {

using detail::spelled;
using files::json_object;
using files::json_value;
using files::JsonMembers;
using files::JsonText;

// The attention factor is 1, whatever the factor.
bool has_unit_scale(const Yarn& yarn) { return yarn.mscale == 1.0 && yarn.mscale_all_dim == 1.0; }
bool has_own_scale(const Yarn& yarn) { return yarn.attention_factor || yarn.mscale || yarn.mscale_all_dim; }

class Params {
 public:
  Params(const Situation& situation, const Wanted& wanted)
      : situation_(situation),
        rope_(wanted.ropes.at(situation.targets.front()).rope),
        context_(wanted.context),
        text_(situation.request.config) {}

  Native written() {
    const bool meta = situation_.request.model.model_type == "llama";
    const std::string wrong = meta ? write_meta() : write_mistral();
    if (!wrong.empty()) return {"", wrong};
    if (rope_.base != situation_.first().rope.base) set("rope_theta", real(rope_.base));
    return {text_.text(), ""};
  }

 private:
  void set(const std::string& key, const std::string& raw) { text_.set({key}, json_value(key, raw)); }
  bool has(const std::string& key) const { return text_.raw({key}).has_value(); }

  std::string write_mistral() {
    const auto* yarn = std::get_if<Yarn>(&rope_.scaling);
    if (yarn == nullptr && !std::holds_alternative<Unscaled>(rope_.scaling)) {
      return "Mistral's params.json takes yarn, or another base (ntk), and no other scaling";
    }
    if (yarn == nullptr) {
      text_.remove({"yarn"});
    } else if (!yarn->truncate || (has_own_scale(*yarn) && !has_unit_scale(*yarn))) {
      return "the yarn of Mistral's params.json takes no truncate and no attention factor of its own";
    } else {
      write_yarn(*yarn);
    }
    files::Ledger ledger;
    const std::string key =
        files::context_key(files::Object(situation_.root, "", ledger)).value_or("max_position_embeddings");
    if (situation_.first().context != context_) set(key, std::to_string(context_));
    return "";
  }

  // Members that stand there keep their places and, where they stay, their spelling.
  void write_yarn(const Yarn& yarn) {
    const JsonMembers members = {
        json_value("original_max_position_embeddings", std::to_string(yarn.trained_length)),
        json_value("factor", spelled(yarn.factor)),
        json_value("apply_scale", has_unit_scale(yarn) ? "false" : "true"),
        json_value("beta", spelled(yarn.beta_fast)),
        json_value("alpha", spelled(yarn.beta_slow)),
    };
    if (text_.raw({"yarn"}).value_or("null") == "null") return text_.set({"yarn"}, json_object("yarn", members));
    for (const files::JsonMember& member : members) {
      const auto before = text_.raw({"yarn", member.key});
      if (!before || files::parse_json(*before) != files::parse_json(member.raw)) {
        text_.set({"yarn", member.key}, member);
      }
    }
  }

  std::string write_meta() {
    const auto* llama3 = std::get_if<Llama3>(&rope_.scaling);
    if (llama3 == nullptr && !std::holds_alternative<Unscaled>(rope_.scaling)) {
      return "Meta's params.json takes llama3, or another base (ntk), and no other scaling";
    }
    if (llama3 == nullptr) {
      for (const char* key : {"rope_scaling_factor", "rope_high_freq_factor"}) text_.remove({key});
      if (has("use_scaled_rope")) set("use_scaled_rope", "false");
      return "";
    }
    if (llama3->trained_length != 8192 || llama3->low != 1) {
      return "Meta's code scales from 8192 tokens with low_freq_factor 1, whatever params.json says";
    }
    if (text_.raw({"use_scaled_rope"}) != "true") set("use_scaled_rope", "true");
    if (situation_.first().rope.scaling != rope_.scaling) set("rope_scaling_factor", spelled(llama3->factor));
    if (has("rope_high_freq_factor") || llama3->high != 4) set("rope_high_freq_factor", spelled(llama3->high));
    return "";
  }

  const Situation& situation_;
  const Rope& rope_;
  std::int64_t context_;
  JsonText text_;
};

}  // namespace

bool is_params(const Situation& situation) {
  const files::Json& root = situation.root;
  return situation.first().model_type.empty() && root.is_object() && !root.contains("model_type") &&
         (root.contains("dim") || root.contains("n_heads"));
}

Native native(const Situation& situation, const Wanted& wanted) { return Params(situation, wanted).written(); }

std::string llama_cpp_options(const Situation& situation, const Proposal& proposal) {
  // Factors by pair are a tensor of the file, and MLA has a temperature in its softmax: options reach neither.
  if (situation.targets.size() != 1 || situation.first().first != 0 || situation.of_llama3_or_lists()) return "";
  const Rope& rope = proposal.rope;
  std::string options = "--ctx-size " + std::to_string(situation.request.context);
  if (rope.base != situation.first().rope.base) options += " --rope-freq-base " + spelled(rope.base);
  const std::string scale = " --rope-scale " + spelled(proposal.factor);
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
