#include "steps.h"

#include <set>
#include <string_view>

#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::extend {
namespace {

using files::Json;
using files::json_value;
using files::JsonMembers;

std::string raw_of(double value) { return real(value); }
std::string raw_of(std::int64_t value) { return std::to_string(value); }
std::string raw_of(bool value) { return value ? "true" : "false"; }
std::string raw_of(const std::vector<double>& list) {
  std::string text = "[";
  for (const double value : list) text += (text.size() > 1 ? ", " : "") + real(value);
  return text + "]";
}

// What the rope_type of a kind of yarn says by itself is not written once more.
Scaling beside_rope_type(Scaling scaling) {
  const std::string_view word = scalings::rope_type_of(scaling);
  Yarn* yarn = std::get_if<Yarn>(&scaling);
  for (const scalings::YarnKind& kind : scalings::yarn_kinds) {
    if (word != kind.rope_type) continue;
    if (kind.yarn.mscale_ratio) yarn->mscale_ratio = Yarn{}.mscale_ratio;
    if (kind.yarn.magnitude == yarn->magnitude) yarn->magnitude = Yarn{}.magnitude;
  }
  return scaling;
}

}  // namespace

bool belongs_to_a_scaling(const std::string& key) {
  static const std::set<std::string> keys = [] {
    std::set<std::string> all = {"rope_type",
                                 "type",
                                 "alpha",
                                 "finetuned",
                                 "apply_yarn_scaling",
                                 "scaling_factor",
                                 "max_position_embeddings",
                                 "original_max_position_embeddings",
                                 "power"};
    scalings::for_each_scaling([&](const auto& scaling) {
      scalings::for_each_field(scaling, [&](const auto& field, const auto&) { all.insert(field.key); });
    });
    all.erase("partial_rotary_factor");
    return all;
  }();
  return keys.count(key) != 0;
}

JsonMembers fields_of(const Scaling& scaling, bool states_betas) {
  JsonMembers members;
  const auto is_kept = [&](const auto& field) {
    return scalings::is_always_stated(field) || (states_betas && std::string_view(field.name).starts_with("beta_"));
  };
  scalings::for_each_stated(beside_rope_type(scaling), is_kept, [&](const auto& field, const auto& value) {
    const std::string_view key = field.key;
    // Said by max_position_embeddings and by partial_rotary_factor.
    if (key == "trained_length" || key == "partial_rotary_factor") return;
    members.push_back(json_value(field.key, raw_of(value)));
  });
  return members;
}

std::string on_one_line(const std::string& raw) {
  std::string text;
  bool in_string = false;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const char c = raw[i];
    if (in_string && c == '\\') {
      text += raw.substr(i++, 2);
      continue;
    }
    if (c == '"') in_string = !in_string;
    const bool blank = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (!blank || in_string) text += c;
    if (!in_string && (c == ',' || c == ':')) text += ' ';
  }
  return text;
}

std::string real(double value) {
  const std::string text = detail::spelled(value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string parameters_alone(const ModelRope& used, const Proposal& proposal) {
  JsonMembers members = {json_value("rope_type", Json(scalings::rope_type_of(proposal.rope.scaling)).dump()),
                         json_value("rope_theta", real(proposal.rope.base))};
  if (const int size = used.rope.head_dim - used.first; used.first == 0 && used.rope.rotary_dim < size) {
    members.push_back(json_value("partial_rotary_factor", real(static_cast<double>(used.rope.rotary_dim) / size)));
  }
  for (files::JsonMember& field : fields_of(proposal.rope.scaling, proposal.states_betas)) {
    members.push_back(std::move(field));
  }
  return files::json_line(members);
}

}  // namespace rotary::extend
