#include "fields.h"

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
std::string raw_of(const std::optional<double>& value) { return real(*value); }
std::string raw_of(const std::vector<double>& list) {
  std::string text = "[";
  for (const double value : list) text += (text.size() > 1 ? ", " : "") + real(value);
  return text + "]";
}

bool is_given(const std::optional<double>& value) { return value.has_value(); }
template <class Value>
bool is_given(const Value&) {
  return true;
}

// Values without which the method means nothing, whatever their defaults are.
bool is_required(std::string_view name) {
  for (const char* always : {"factor", "trained_length", "low", "high", "short_factor", "long_factor"}) {
    if (name == always) return true;
  }
  return false;
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

const char* rope_type_of(const Scaling& scaling) { return scalings::rope_type_of(scaling); }

JsonMembers fields_of(const Scaling& scaling, bool states_betas) {
  JsonMembers members;
  std::visit(
      [&]<class S>(const S& held) {
        const S otherwise;
        scalings::for_each_field(held, [&](const auto& field, const auto& value) {
          if (field.reads.key_of == scalings::KeyOf::rotary || std::string_view(field.key) == "partial_rotary_factor")
            return;
          const std::string_view name = field.name;
          const bool stated = is_required(name) || (states_betas && name.starts_with("beta_"));
          const bool is_default = value == otherwise.*field.member;
          if (is_given(value) && (stated || !is_default)) members.push_back(json_value(field.key, raw_of(value)));
        });
      },
      scaling);
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
  JsonMembers members = {json_value("rope_type", Json(rope_type_of(proposal.rope.scaling)).dump()),
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
