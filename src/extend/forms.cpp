#include "steps.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "files/config/stages.h"
#include "files/models/quirks/quirk.h"
#include "values/scaling_fields.h"

namespace rotary::extend {
namespace {

using files::Json;
using files::json_object;
using files::json_value;
using files::JsonMembers;
using files::JsonPath;
using files::JsonText;

// Further keys of published files that repeat the base.
constexpr const char* repeated_bases[] = {"theta", "rotary_base", "rotary_emb_base", "rope_base"};

class Writer {
 public:
  Writer(const Situation& situation, const Wanted& wanted)
      : situation_(situation), wanted_(wanted), text_(situation.request.config) {}

  Written as(Form form) {
    const std::string object = form == Form::rope_parameters ? write_parameters() : write_scaling();
    write_lengths();
    repeat_the_base();
    state_head_dim();
    return {object, text_.text()};
  }

 private:
  std::optional<std::string> raw(const std::string& key) const { return text_.raw(situation_.path(key)); }
  const Json* dict(const char* key) const {
    const Json* value = situation_.value(key);
    return value != nullptr && value->is_object() ? value : nullptr;
  }
  const Proposal& first() const { return wanted_.ropes.at(situation_.targets.front()); }

  // The key of the base that the file gives, or the family's own.
  std::string base_key() const {
    const files::Family* family = situation_.family;
    const auto keys = family == nullptr ? std::vector<std::string_view>{"rope_theta"} : files::words(family->base_key);
    for (const std::string_view key : keys) {
      if (situation_.value(std::string(key)) != nullptr) return std::string(key);
    }
    for (const std::string_view key : keys) {
      if (key.find('.') == std::string_view::npos) return std::string(key);
    }
    return "";
  }

  bool base_is_below() const {
    const files::Family* family = situation_.family;
    return family != nullptr && family->base_key.find('.') != std::string_view::npos &&
           situation_.value(base_key()) == nullptr;
  }

  // The base as the file spells it, where it stays.
  std::string base_text(const Rope& planned, const ModelRope& used, const JsonPath& beside) const {
    if (planned.base == used.rope.base) {
      if (const auto inside = text_.raw(beside)) return *inside;
      const std::string key = base_key();
      const Json* given = key.empty() ? nullptr : situation_.value(key);
      if (given != nullptr && given->is_number() && given->get<double>() == planned.base) return *raw(key);
    }
    return real(planned.base);
  }

  // What stands in the object beside its scaling, but for the keys that are written anew.
  void add_the_rest(JsonMembers& members, const JsonPath& path, const Json* object) const {
    if (object == nullptr) return;
    for (const auto& item : object->items()) {
      const bool written = std::any_of(members.begin(), members.end(),
                                       [&](const files::JsonMember& member) { return member.key == item.key(); });
      JsonPath inner = path;
      inner.push_back(item.key());
      if (!written && !belongs_to_a_scaling(item.key())) members.push_back(json_value(item.key(), *text_.raw(inner)));
    }
  }

  // ---- rope_parameters ----

  // One rope as an entry; what stood in `object`, at path, stays where it is no scaling's.
  JsonMembers entry(const Rope& rope, const ModelRope& used, const JsonPath& path, const Json* object,
                    bool states_betas) const {
    JsonPath theta = path;
    theta.push_back("rope_theta");
    JsonMembers members = {json_value("rope_type", Json(scalings::rope_type_of(rope.scaling)).dump()),
                           json_value("rope_theta", base_text(rope, used, theta))};
    const auto outside = raw("partial_rotary_factor");
    const bool inside = object != nullptr && object->contains("partial_rotary_factor");
    const auto* part = std::get_if<Proportional>(&rope.scaling);
    if (part != nullptr && !inside) members.push_back(json_value("partial_rotary_factor", real(part->fraction)));
    if (part == nullptr && !inside && outside && *outside != "null") {
      members.push_back(json_value("partial_rotary_factor", *outside));
    }
    for (files::JsonMember& field : fields_of(rope.scaling, states_betas)) members.push_back(std::move(field));
    add_the_rest(members, path, object);
    return members;
  }

  // Whether the layers of that type get the planned rope.
  bool is_planned(std::size_t i, const std::string& label) const {
    return wanted_.ropes.count(i) != 0 && !(situation_.splits(situation_.rope(i)) && slides(label));
  }

  JsonMembers entry_of(std::size_t i, const std::string& label, const JsonPath& path, const Json* object) const {
    const auto planned = wanted_.ropes.find(i);
    if (!is_planned(i, label)) return entry(situation_.rope(i).rope, situation_.rope(i), path, object, false);
    return entry(planned->second.rope, situation_.rope(i), path, object, planned->second.states_betas);
  }

  std::string write_parameters() {
    const JsonPath path = situation_.path("rope_parameters");
    if (situation_.of_layer_types()) {
      write_nested(path);
    } else {
      write_object(path, flat(path));
    }
    text_.remove(situation_.path("rope_scaling"));
    if (const std::string key = base_key(); !key.empty() && dict("rope_parameters") == nullptr) {
      text_.remove(situation_.path(key));
    }
    return on_one_line(*text_.raw(path));
  }

  // An object that stands there keeps its members, in their order, but for what changes.
  void write_object(const JsonPath& path, const JsonMembers& members) {
    const auto before = text_.raw(path);
    const Json old = before ? files::parse_json(*before) : Json();
    if (!old.is_object() || old.empty()) return text_.set(path, json_object(path.back(), members));
    const auto inner = [&](const std::string& key) {
      JsonPath whole = path;
      whole.push_back(key);
      return whole;
    };
    for (const files::JsonMember& member : members) {
      const auto found = old.find(member.key);
      const bool same = !member.is_object && found != old.end() && *found == files::parse_json(member.raw);
      if (!same) text_.set(inner(member.key), member);
    }
    for (const auto& item : old.items()) {
      const bool stays = std::any_of(members.begin(), members.end(),
                                     [&](const files::JsonMember& member) { return member.key == item.key(); });
      if (!stays) text_.remove(inner(item.key()));
    }
  }

  JsonMembers flat(const JsonPath& path) const {
    const Json* parameters = dict("rope_parameters");
    if (dict("rope_scaling") != nullptr) {
      return entry_of(situation_.targets.front(), "", situation_.path("rope_scaling"), dict("rope_scaling"));
    }
    return entry_of(situation_.targets.front(), "", path, parameters);
  }

  // One entry for each layer type; those that stand there stay, but for the ropes that are extended.
  void write_nested(const JsonPath& path) {
    const Json* parameters = dict("rope_parameters");
    JsonMembers members;
    std::set<std::string> seen;
    for (std::size_t i = 0; i < situation_.request.model.ropes.size(); ++i) {
      if (situation_.rope(i).part != situation_.first().part) continue;
      for (const std::string& label : situation_.rope(i).layer_types) {
        if (!seen.insert(label).second) continue;
        JsonPath inner = path;
        inner.push_back(label);
        const bool there = parameters != nullptr && parameters->contains(label);
        if (there && !is_planned(i, label)) continue;
        const Json* object = there && parameters->at(label).is_object() ? &parameters->at(label) : nullptr;
        if (parameters != nullptr) {
          write_object(inner, entry_of(i, label, inner, object));
        } else {
          members.push_back(json_object(label, entry_of(i, label, inner, object)));
        }
      }
    }
    if (parameters == nullptr) text_.set(path, json_object("rope_parameters", members));
  }

  // ---- rope_scaling ----

  std::string write_scaling() {
    const Json* scaling = dict("rope_scaling");
    const Json* parameters = dict("rope_parameters");
    const bool from_parameters = scaling == nullptr && parameters != nullptr && !situation_.of_layer_types();
    const JsonPath old = situation_.path(from_parameters ? "rope_parameters" : "rope_scaling");
    const Rope& rope = first().rope;
    const bool phi3 = situation_.family != nullptr && situation_.family->quirk->yarn_is_longrope;
    JsonMembers members;
    if (phi3 && wanted_.method == "longrope") {  // Microsoft's own code takes these three keys and no other
      members = {json_value("type", "\"longrope\"")};
      for (files::JsonMember& field : fields_of(rope.scaling, false)) {
        if (field.key.ends_with("_factor")) members.push_back(std::move(field));
      }
    } else {
      members = {json_value("rope_type", Json(scalings::rope_type_of(rope.scaling)).dump())};
      for (files::JsonMember& field : fields_of(rope.scaling, first().states_betas))
        members.push_back(std::move(field));
      add_the_rest(members, old, from_parameters ? parameters : scaling);
      std::erase_if(members, [](const files::JsonMember& member) { return member.key == "rope_theta"; });
    }
    // A base one level down (DBRX) is not what transformers reads beside a scaling.
    if (base_is_below() && !std::holds_alternative<Unscaled>(rope.scaling)) {
      members.insert(members.begin() + 1, json_value("rope_theta", real(rope.base)));
    }
    if (says_type(scaling, members.front())) members.front().key = "type";
    write_bases();
    text_.remove(situation_.path("rope_parameters"));
    const bool needed = members.size() > 1 || !std::holds_alternative<Unscaled>(rope.scaling) ||
                        (situation_.family != nullptr && !situation_.family->rope_parameters.empty());
    if (needed) {
      write_object(situation_.path("rope_scaling"), members);
      return on_one_line(*raw("rope_scaling"));
    }
    if (raw("rope_scaling")) text_.set(situation_.path("rope_scaling"), json_value("rope_scaling", "null"));
    return "null";
  }

  // The oldest word for rope_type, which stays where it says the same; families of layer types do not read it.
  bool says_type(const Json* scaling, const files::JsonMember& rope_type) const {
    return scaling != nullptr && !situation_.of_layer_types() && !scaling->contains("rope_type") &&
           scaling->contains("type") && scaling->at("type") == files::parse_json(rope_type.raw);
  }

  // Beside rope_scaling the bases stand at the top of the part.
  void write_bases() {
    const ModelRope& used = situation_.first();
    const bool had_parameters = dict("rope_parameters") != nullptr;
    const Json* scaling = dict("rope_scaling");
    const bool inside = scaling != nullptr && scaling->contains("rope_theta");
    const std::string key = base_key();
    if (!key.empty() && (had_parameters || inside || first().rope.base != used.rope.base)) {
      const JsonPath beside = situation_.path(inside ? "rope_scaling" : "rope_parameters");
      JsonPath theta = beside;
      theta.push_back("rope_theta");
      text_.set(situation_.path(key), json_value(key, base_text(first().rope, used, theta)));
    }
    const files::Family* family = situation_.family;
    if (!had_parameters || family == nullptr || family->sliding_base_key.empty()) return;
    for (const std::size_t i : situation_.left) {
      if (situation_.rope(i).part != used.part || situation_.rope(i).rope.base == family->sliding_base) continue;
      const std::string sliding(family->sliding_base_key);
      text_.set(situation_.path(sliding), json_value(sliding, real(situation_.rope(i).rope.base)));
    }
  }

  void repeat_the_base() {
    const double before = situation_.first().rope.base, now = first().rope.base;
    for (const char* key : repeated_bases) {
      const Json* value = situation_.value(key);
      if (now == before || key == base_key() || value == nullptr || !value->is_number()) continue;
      if (value->get<double>() == before) text_.set(situation_.path(key), json_value(key, real(now)));
    }
  }

  // transformers 5.23 takes head_dim from the config for these methods, and these classes leave it null.
  void state_head_dim() {
    constexpr std::string_view types[] = {"mixtral", "minimax", "hunyuan_v1_dense", "hunyuan_v1_moe",
                                          "hunyuan_vl_text"};
    const std::string& method = wanted_.method;
    const bool reads = method == "yarn" || method == "dynamic" || method == "longrope";
    const Json* stated = situation_.value("head_dim");
    const ModelRope& used = situation_.first();
    const bool by_class = std::find(std::begin(types), std::end(types), used.model_type) != std::end(types);
    const bool is_null = stated == nullptr ? by_class : stated->is_null();
    if (reads && is_null && used.first == 0) {
      text_.set(situation_.path("head_dim"), json_value("head_dim", std::to_string(used.rope.head_dim)));
    }
  }

  // ---- lengths ----

  void write_lengths() {
    const Json* object = situation_.object();
    if (object == nullptr) return;
    files::Ledger ledger;
    const std::string key = files::context_key(files::Object(*object, "", ledger)).value_or("max_position_embeddings");
    if (situation_.first().context != wanted_.context) {
      text_.set(situation_.path(key), json_value(key, std::to_string(wanted_.context)));
    }
    const std::string original = "original_max_position_embeddings";
    const bool phi3 = situation_.family != nullptr && situation_.family->quirk->yarn_is_longrope;
    const Json* stated = situation_.value(original);
    const bool reads = scalings::has_key(first().rope.scaling, original);
    const bool differs = stated != nullptr && *stated != situation_.trained;
    if (reads && (differs || (phi3 && stated == nullptr))) {
      text_.set(situation_.path(original), json_value(original, std::to_string(situation_.trained)));
    }
  }

  const Situation& situation_;
  const Wanted& wanted_;
  JsonText text_;
};

}  // namespace

Form own_form(const Situation& situation) {
  const auto is_object = [&](const char* key) {
    const Json* value = situation.value(key);
    return value != nullptr && value->is_object();
  };
  if (is_object("rope_scaling")) return Form::rope_scaling;
  if (situation.value("rope_parameters") != nullptr) return Form::rope_parameters;
  const Json* version = situation.root.is_object() && situation.root.contains("transformers_version")
                            ? &situation.root.at("transformers_version")
                            : nullptr;
  const bool is_new = version != nullptr && version->is_string() && version->get<std::string>().starts_with("5.");
  const bool has_old = situation.value("rope_scaling") != nullptr || situation.value("rope_theta") != nullptr;
  return is_new && !has_old ? Form::rope_parameters : Form::rope_scaling;
}

Written written(const Situation& situation, const Wanted& wanted, Form form) {
  return Writer(situation, wanted).as(form);
}

}  // namespace rotary::extend
