#include <algorithm>
#include <set>

#include "files/config/stages.h"
#include "files/models/quirks/quirk.h"
#include "steps.h"
#include "values/number_text.h"

namespace rotary::extend {
namespace {

using files::Json;
using files::JsonMember;
using files::JsonMembers;
using files::JsonPath;
using files::JsonText;

// ---- the members of a scaling ----

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

JsonMember rope_type_of(const Scaling& scaling) { return {"rope_type", Json(scalings::rope_type_of(scaling)).dump()}; }

// The scaling's values beside its rope_type: those that it means nothing without, and those that are not the default.
void add_values(JsonMembers& members, const Scaling& scaling, bool states_betas) {
  const auto is_kept = [&](const auto& field) {
    return scalings::is_always_stated(field) || (states_betas && std::string_view(field.name).starts_with("beta_"));
  };
  scalings::for_each_stated(beside_rope_type(scaling), is_kept, [&](const auto& field, const auto& value) {
    const std::string key = field.key;
    // Said by max_position_embeddings and by partial_rotary_factor.
    if (key != "trained_length" && key != "partial_rotary_factor") members.push_back({key, raw_of(value)});
  });
}

// The keys that go with a scaling: what else stands in its object stays.
bool belongs_to_a_scaling(const std::string& key) {
  if (key == "partial_rotary_factor") return false;
  bool found = files::is_listed(key,
                                "rope_type type alpha finetuned apply_yarn_scaling scaling_factor power "
                                "max_position_embeddings original_max_position_embeddings");
  scalings::for_each_scaling([&](const auto& scaling) {
    scalings::for_each_field(scaling, [&](const auto& field, const auto&) { found = found || key == field.key; });
  });
  return found;
}

JsonPath under(JsonPath path, const std::string& key) {
  path.push_back(key);
  return path;
}

bool has_member(const JsonMembers& members, const std::string& key) {
  return std::any_of(members.begin(), members.end(), [&](const JsonMember& member) { return member.key == key; });
}

// ---- config.json ----

// Further keys of published files that repeat the base.
constexpr const char* repeated_bases[] = {"theta", "rotary_base", "rotary_emb_base", "rope_base"};

class Editor {
 public:
  Editor(const Situation& situation, const MethodPlan& plan)
      : situation_(situation), plan_(plan), text_(situation.request.config) {}

  Written as(Form form) {
    std::string object;
    if (form == own_form(situation_) && leaves_all()) {  // its object keeps its words
      object = one_line(raw(form_keys[static_cast<int>(form)]).value_or("null"));
    } else {
      object = form == Form::rope_parameters ? write_parameters() : write_scaling();
    }
    write_lengths();
    repeat_the_base();
    state_head_dim();
    return {text_.text(), object};
  }

 private:
  const Rope& planned() const { return plan_.ropes.front().planned; }
  const Rope& before() const { return situation_.first().rope; }
  void set(const std::string& key, const std::string& raw) { text_.set(situation_.path(key), raw); }
  void remove(const std::string& key) { text_.remove(situation_.path(key)); }
  std::optional<std::string> raw(const std::string& key) const { return text_.raw(situation_.path(key)); }

  bool leaves_all() const {  // no rope changes
    return std::all_of(plan_.ropes.begin(), plan_.ropes.end(),
                       [&](const RopePlan& rope) { return rope.planned == situation_.rope(rope.rope).rope; });
  }

  bool is_phi3() const { return situation_.family != nullptr && situation_.family->quirk->yarn_is_longrope; }

  // The key of the base that the file gives, or the family's own.
  std::string base_key() const {
    const files::Family* family = situation_.family;
    const auto keys = family == nullptr ? std::vector<std::string_view>{"rope_theta"} : files::words(family->base_key);
    std::string own;
    for (const std::string_view key : keys) {
      if (situation_.value(std::string(key)) != nullptr) return std::string(key);
      if (own.empty() && key.find('.') == std::string_view::npos) own = key;
    }
    return own;
  }

  // The base as the file spells it, where it stays.
  std::string base_text(const Rope& now, const Rope& old, const JsonPath& object) const {
    if (now.base != old.base) return real(now.base);
    if (const auto inside = text_.raw(under(object, "rope_theta"))) return *inside;
    const std::string key = base_key();
    const Json* given = key.empty() ? nullptr : situation_.value(key);
    return given != nullptr && *given == now.base ? *raw(key) : real(now.base);
  }

  // What stands in the object beside its scaling, but for the keys that are written anew.
  void add_the_rest(JsonMembers& members, const JsonPath& path, const Json* object) const {
    if (object == nullptr) return;
    for (const auto& item : object->items()) {
      if (has_member(members, item.key()) || belongs_to_a_scaling(item.key())) continue;
      members.push_back({item.key(), *text_.raw(under(path, item.key()))});
    }
  }

  // ---- rope_parameters ----

  // Whether the layers of that type get the planned rope.
  bool is_planned(std::size_t i, const std::string& layer_type) const {
    return planned_rope(plan_, i) != nullptr &&
           !(situation_.splits(situation_.rope(i)) && files::has_sliding_rope(layer_type));
  }

  // Rope i as an entry; what stood in `object`, at path, stays where it is no scaling's.
  JsonMembers entry(std::size_t i, const std::string& layer_type, const JsonPath& path, const Json* object) const {
    const bool extended = is_planned(i, layer_type);
    const Rope& old = situation_.rope(i).rope;
    const Rope& rope = extended ? *planned_rope(plan_, i) : old;
    JsonMembers members = {rope_type_of(rope.scaling), {"rope_theta", base_text(rope, old, path)}};
    const std::string partial = "partial_rotary_factor";
    if (object == nullptr || !object->contains(partial)) {
      const auto outside = raw(partial);
      const auto* part = std::get_if<Proportional>(&rope.scaling);
      if (part != nullptr) {
        members.push_back({partial, real(part->fraction)});
      } else if (outside && *outside != "null") {
        members.push_back({partial, *outside});
      }
    }
    add_values(members, rope.scaling, extended && states_betas(situation_));
    add_the_rest(members, path, object);
    return members;
  }

  std::string write_parameters() {
    const JsonPath path = situation_.path("rope_parameters");
    const Json* parameters = situation_.dict("rope_parameters");
    if (situation_.of_layer_types()) {
      write_nested(path, parameters);
    } else {
      const Json* scaling = situation_.dict("rope_scaling");
      write_object(text_, path,
                   entry(situation_.targets.front(), "", scaling == nullptr ? path : situation_.path("rope_scaling"),
                         scaling == nullptr ? parameters : scaling));
    }
    remove("rope_scaling");
    if (const std::string key = base_key(); !key.empty() && parameters == nullptr) remove(key);
    return one_line(*text_.raw(path));
  }

  // One entry for each layer type; those that stand there stay, but for the ropes that are extended.
  void write_nested(const JsonPath& path, const Json* parameters) {
    if (parameters == nullptr) text_.set_object(path, {});
    std::set<std::string> seen;
    for (std::size_t i = 0; i < situation_.request.model.ropes.size(); ++i) {
      if (situation_.rope(i).part != situation_.first().part) continue;
      for (const std::string& layer_type : situation_.rope(i).layer_types) {
        const bool there = parameters != nullptr && parameters->contains(layer_type);
        if (!seen.insert(layer_type).second || (there && !is_planned(i, layer_type))) continue;
        const Json* object = there && parameters->at(layer_type).is_object() ? &parameters->at(layer_type) : nullptr;
        const JsonPath inner = under(path, layer_type);
        write_object(text_, inner, entry(i, layer_type, inner, object));
      }
    }
  }

  // ---- rope_scaling ----

  // The members of the object rope_scaling, whose old one is `scaling`.
  JsonMembers scaling_members(const Json* scaling) const {
    const Rope& rope = planned();
    JsonMembers members = {rope_type_of(rope.scaling)};
    if (is_phi3() && plan_.method == "longrope") {  // Microsoft's own code takes these three keys and no other
      members.front().key = "type";
      add_values(members, rope.scaling, false);
      std::erase_if(members,
                    [](const JsonMember& member) { return member.key != "type" && !member.key.ends_with("_factor"); });
    } else {
      const Json* parameters = situation_.of_layer_types() ? nullptr : situation_.dict("rope_parameters");
      add_values(members, rope.scaling, states_betas(situation_));
      const bool from_parameters = scaling == nullptr && parameters != nullptr;
      add_the_rest(members, situation_.path(from_parameters ? "rope_parameters" : "rope_scaling"),
                   from_parameters ? parameters : scaling);
      std::erase_if(members, [](const JsonMember& member) { return member.key == "rope_theta"; });
    }
    // A base one level down (DBRX) is not what transformers reads beside a scaling.
    const files::Family* family = situation_.family;
    const bool is_below = family != nullptr && family->base_key.find('.') != std::string_view::npos &&
                          situation_.value(base_key()) == nullptr;
    if (is_below && !std::holds_alternative<Unscaled>(rope.scaling)) {
      members.insert(members.begin() + 1, {"rope_theta", real(rope.base)});
    }
    // The oldest word for rope_type, which stays where it says the same; families of layer types do not read it.
    if (scaling != nullptr && !situation_.of_layer_types() && !scaling->contains("rope_type") &&
        scaling->contains("type") && scaling->at("type") == files::parse_json(members.front().raw)) {
      members.front().key = "type";
    }
    return members;
  }

  std::string write_scaling() {
    const JsonMembers members = scaling_members(situation_.dict("rope_scaling"));
    write_bases();
    remove("rope_parameters");
    const bool needed = members.size() > 1 || !std::holds_alternative<Unscaled>(planned().scaling) ||
                        (situation_.family != nullptr && !situation_.family->rope_parameters.empty());
    if (needed) {
      write_object(text_, situation_.path("rope_scaling"), members);
      return one_line(*raw("rope_scaling"));
    }
    if (raw("rope_scaling")) set("rope_scaling", "null");
    return "null";
  }

  // Beside rope_scaling the bases stand at the top of the part.
  void write_bases() {
    const bool had_parameters = situation_.dict("rope_parameters") != nullptr;
    const Json* scaling = situation_.dict("rope_scaling");
    const bool inside = scaling != nullptr && scaling->contains("rope_theta");
    const std::string key = base_key();
    if (!key.empty() && (had_parameters || inside || planned().base != before().base)) {
      set(key, base_text(planned(), before(), situation_.path(inside ? "rope_scaling" : "rope_parameters")));
    }
    const files::Family* family = situation_.family;
    if (!had_parameters || family == nullptr || family->sliding_base_key.empty()) return;
    for (const std::size_t i : situation_.left) {
      const ModelRope& used = situation_.rope(i);
      if (used.part != situation_.first().part || used.rope.base == family->sliding_base) continue;
      set(std::string(family->sliding_base_key), real(used.rope.base));
    }
  }

  // ---- beside the scaling ----

  void repeat_the_base() {
    if (planned().base == before().base) return;
    for (const char* key : repeated_bases) {
      const Json* value = situation_.value(key);
      if (key != base_key() && value != nullptr && *value == before().base) set(key, real(planned().base));
    }
  }

  // transformers 5.23 takes head_dim from the config for these methods, which must not be null then.
  void state_head_dim() {
    const std::string& method = plan_.method;
    const bool reads = method == "yarn" || method == "dynamic" || method == "longrope";
    const Json* stated = situation_.value("head_dim");
    const ModelRope& used = situation_.first();
    const bool by_class = situation_.family != nullptr && situation_.family->null_head_dim;
    const bool is_null = stated == nullptr ? by_class : stated->is_null();
    if (reads && is_null && used.first == 0) set("head_dim", std::to_string(used.rope.head_dim));
  }

  void write_lengths() {
    if (situation_.first().context != plan_.max_position_embeddings) {
      set(length_key(*situation_.object()), std::to_string(plan_.max_position_embeddings));
    }
    const std::string original = "original_max_position_embeddings";
    const Json* stated = situation_.value(original);
    const bool differs = stated == nullptr ? is_phi3() : *stated != situation_.trained;
    if (differs && scalings::has_key(planned().scaling, original)) set(original, std::to_string(situation_.trained));
  }

  const Situation& situation_;
  const MethodPlan& plan_;
  JsonText text_;
};

}  // namespace

void write_object(JsonText& text, const JsonPath& path, const JsonMembers& members) {
  const auto there = text.raw(path);
  const Json old = there ? files::parse_json(*there) : Json();
  if (!old.is_object() || old.empty()) return text.set_object(path, members);
  for (const JsonMember& member : members) {
    const auto found = old.find(member.key);
    const bool same = found != old.end() && *found == files::parse_json(member.raw);
    if (!same) text.set(under(path, member.key), member.raw);
  }
  for (const auto& item : old.items()) {
    if (!has_member(members, item.key())) text.remove(under(path, item.key()));
  }
}

std::string real(double value) {
  const std::string text = detail::spelled(value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string one_line(const std::string& raw) {
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

std::string length_key(const Json& object) {
  files::Ledger ledger;
  return files::context_key(files::Object(object, "", ledger)).value_or("max_position_embeddings");
}

std::string parameters_alone(const Situation& situation, const MethodPlan& plan) {
  const Rope& rope = plan.ropes.front().planned;
  const ModelRope& used = situation.first();
  JsonMembers members = {rope_type_of(rope.scaling), {"rope_theta", real(rope.base)}};
  if (used.first == 0 && used.rope.rotary_dim < used.rope.head_dim) {
    members.push_back({"partial_rotary_factor", real(static_cast<double>(used.rope.rotary_dim) / used.rope.head_dim)});
  }
  add_values(members, rope.scaling, states_betas(situation));
  return files::json_line(members);
}

Form own_form(const Situation& situation) {
  if (situation.dict("rope_scaling") != nullptr) return Form::rope_scaling;
  if (situation.value("rope_parameters") != nullptr) return Form::rope_parameters;
  const bool is_new = files::string_of(situation.root, "transformers_version").starts_with("5.");
  const bool has_old = situation.value("rope_scaling") != nullptr || situation.value("rope_theta") != nullptr;
  return is_new && !has_old ? Form::rope_parameters : Form::rope_scaling;
}

Written in_config(const Situation& situation, const MethodPlan& plan, Form form) {
  Written written = Editor(situation, plan).as(form);
  read_back(situation, plan, written);
  return written;
}

}  // namespace rotary::extend
