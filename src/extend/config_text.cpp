// A plan as text: the new config.json in both forms of transformers, each read back and compared with the plan.
#include <algorithm>
#include <set>

#include "files/config/stages.h"
#include "files/models/quirks/quirk.h"
#include "steps.h"
#include "values/number_text.h"

namespace rotary::extend {
namespace {

enum class Form : std::uint8_t { rope_parameters, rope_scaling };  // of transformers 5, or the older with rope_theta
constexpr const char* form_keys[] = {"rope_parameters", "rope_scaling"};
constexpr const char* partial_key = "partial_rotary_factor";

// ---- the members of a scaling ----

// A scaling without the values that the rope_type of its kind of yarn says by itself.
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

// The scaling's values beside its rope_type: those that it means nothing without, and those that are not the default.
void add_values(OrderedJson& members, const Scaling& scaling, bool states_betas) {
  const auto is_kept = [&](const auto& field) {
    return scalings::is_always_stated(field) || (states_betas && std::string_view(field.name).starts_with("beta_"));
  };
  scalings::for_each_stated(beside_rope_type(scaling), is_kept, [&](const auto& field, const auto& value) {
    const std::string key = field.key;
    // max_position_embeddings and partial_rotary_factor say these two.
    if (key != "trained_length" && key != partial_key) members[key] = value;
  });
}

// Whether the key goes with a scaling; all other members of its object stay.
bool belongs_to_a_scaling(const std::string& key) {
  if (key == partial_key) return false;
  bool found = files::is_listed(key,
                                "rope_type type alpha finetuned apply_yarn_scaling scaling_factor power "
                                "max_position_embeddings original_max_position_embeddings");
  scalings::for_each_scaling([&](const auto& scaling) {
    scalings::for_each_field(scaling, [&](const auto& field, const auto&) { found = found || key == field.key; });
  });
  return found;
}

void add_the_rest(OrderedJson& members, const OrderedJson& object) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items())
    if (!members.contains(key) && !belongs_to_a_scaling(key)) members[key] = value;
}

// The members in the order of the object that was there; equal values keep their spelling.
OrderedJson in_order_of(const OrderedJson& before, const OrderedJson& members) {
  OrderedJson result = OrderedJson::object();
  if (before.is_object()) {
    for (const auto& [key, value] : before.items())
      if (members.contains(key)) result[key] = members[key] == value ? value : members[key];
  }
  for (const auto& [key, value] : members.items())
    if (!result.contains(key)) result[key] = value;
  return result;
}

// ---- config.json ----

// Further keys of published files that repeat the base.
constexpr const char* repeated_bases[] = {"theta", "rotary_base", "rotary_emb_base", "rope_base"};

// The planned rope; null where it stays.
const Rope* planned_rope(const MethodPlan& plan, std::size_t rope) {
  const auto found = std::ranges::find(plan.ropes, rope, &RopePlan::rope);
  return found == plan.ropes.end() ? nullptr : &found->planned;
}

class Editor {
 public:
  Editor(const Situation& situation, const MethodPlan& plan)
      : situation_(situation),
        plan_(plan),
        config_(files::parse_to_edit(situation.request.config)),
        part_(*files::object_at(config_, situation.part())) {}

  // The whole config. Where no rope changes, the file's own object stays.
  OrderedJson in(Form form) {
    const bool stays = std::ranges::all_of(
        plan_.ropes, [&](const RopePlan& rope) { return rope.planned == situation_.rope(rope.rope).rope; });
    if (!stays || form != own_form()) form == Form::rope_parameters ? write_parameters() : write_scaling();
    write_lengths();
    repeat_the_base();
    state_head_dim();
    return config_;
  }

  // The form that the file has, or that its version of transformers writes.
  Form own_form() const {
    if (situation_.dict("rope_scaling") != nullptr) return Form::rope_scaling;
    if (situation_.value("rope_parameters") != nullptr) return Form::rope_parameters;
    const bool is_new = files::string_of(situation_.root, "transformers_version").starts_with("5.");
    const bool has_old = situation_.value("rope_scaling") != nullptr || situation_.value("rope_theta") != nullptr;
    return is_new && !has_old ? Form::rope_parameters : Form::rope_scaling;
  }

 private:
  const Rope& planned() const { return plan_.ropes.front().planned; }
  const Rope& before() const { return situation_.first().rope; }
  OrderedJson at(const std::string& key) const { return part_.value(key, OrderedJson()); }  // null where it is absent
  bool is_phi3() const { return situation_.family != nullptr && situation_.family->quirk->yarn_is_longrope; }

  // The key of the base that the file gives, or the family's own.
  std::string base_key() const {
    const files::Family* family = situation_.family;
    const auto keys = family == nullptr ? std::vector<std::string_view>{"rope_theta"} : files::words(family->base_key);
    std::string own;
    for (const std::string_view key : keys) {
      if (part_.contains(key)) return std::string(key);
      if (own.empty() && key.find('.') == std::string_view::npos) own = key;
    }
    return own;
  }

  // The base as the file spells it, where it stays.
  OrderedJson base_of(const Rope& now, const Rope& old, const OrderedJson& object) const {
    if (now.base != old.base) return now.base;
    if (object.is_object() && object.contains("rope_theta")) return object["rope_theta"];
    const OrderedJson given = at(base_key());
    return given == now.base ? given : OrderedJson(now.base);
  }

  // ---- rope_parameters ----

  // Whether the layers of that type get the planned rope.
  bool is_planned(std::size_t i, const std::string& layer_type) const {
    return planned_rope(plan_, i) != nullptr &&
           !(situation_.splits(situation_.request.model, situation_.rope(i)) && files::has_sliding_rope(layer_type));
  }

  // Rope i as an entry; members of `object`, the entry before, stay where they are no scaling's.
  OrderedJson entry(std::size_t i, const std::string& layer_type, const OrderedJson& object) const {
    const bool extended = is_planned(i, layer_type);
    const Rope& old = situation_.rope(i).rope;
    const Rope& rope = extended ? *planned_rope(plan_, i) : old;
    OrderedJson members = {{"rope_type", scalings::rope_type_of(rope.scaling)},
                           {"rope_theta", base_of(rope, old, object)}};
    if (!object.is_object() || !object.contains(partial_key)) {
      const auto* part = std::get_if<Proportional>(&rope.scaling);
      const OrderedJson outside = part != nullptr ? OrderedJson(part->fraction) : at(partial_key);
      if (!outside.is_null()) members[partial_key] = outside;
    }
    add_values(members, rope.scaling, extended && states_betas(situation_));
    add_the_rest(members, object);
    return members;
  }

  void write_parameters() {
    const OrderedJson old = at("rope_parameters"), scaling = at("rope_scaling");
    if (situation_.of_layer_types()) {
      write_nested(old);
    } else {
      part_["rope_parameters"] =
          in_order_of(old, entry(situation_.targets.front(), "", scaling.is_object() ? scaling : old));
    }
    part_.erase("rope_scaling");
    if (!old.is_object()) part_.erase(base_key());
  }

  // One entry for each layer type; the others stay, but for the ropes that are extended.
  void write_nested(const OrderedJson& old) {
    OrderedJson& parameters = part_["rope_parameters"];
    if (!old.is_object()) parameters = OrderedJson::object();
    std::set<std::string> seen;
    for (std::size_t i = 0; i < situation_.request.model.ropes.size(); ++i) {
      if (situation_.rope(i).part != situation_.part()) continue;
      for (const std::string& layer_type : layer_types_of(situation_.request.model, situation_.rope(i))) {
        const bool stays = parameters.contains(layer_type) && !is_planned(i, layer_type);
        if (!seen.insert(layer_type).second || stays) continue;
        const OrderedJson object = parameters.value(layer_type, OrderedJson());
        parameters[layer_type] = in_order_of(object, entry(i, layer_type, object));
      }
    }
  }

  // ---- rope_scaling ----

  OrderedJson scaling_members(const OrderedJson& scaling) const {
    const Rope& rope = planned();
    const std::string word(scalings::rope_type_of(rope.scaling));
    OrderedJson values = OrderedJson::object();
    if (is_phi3() && plan_.method == "longrope") {  // Microsoft's own code takes these three keys and no other
      add_values(values, rope.scaling, false);
      return {{"type", word}, {"short_factor", values["short_factor"]}, {"long_factor", values["long_factor"]}};
    }
    // The oldest word for rope_type stays where it says the same; families of layer types do not read it.
    const bool has_type = scaling.is_object() && !situation_.of_layer_types() && !scaling.contains("rope_type") &&
                          scaling.value("type", "") == word;
    OrderedJson members = {{has_type ? "type" : "rope_type", word}};
    // A base one level down (DBRX) is not the one that transformers reads beside a scaling.
    const files::Family* family = situation_.family;
    const bool is_below = family != nullptr && family->base_key.find('.') != std::string_view::npos;
    const bool states_base = is_below && !part_.contains(base_key()) && word != "default";
    if (states_base) members["rope_theta"] = rope.base;
    add_values(members, rope.scaling, states_betas(situation_));
    add_the_rest(members, scaling.is_object() || situation_.of_layer_types() ? scaling : at("rope_parameters"));
    if (!states_base) members.erase("rope_theta");
    return members;
  }

  void write_scaling() {
    const OrderedJson old = at("rope_scaling"), members = scaling_members(old);
    write_bases(old);
    part_.erase("rope_parameters");
    const bool needed = members.size() > 1 || !std::holds_alternative<Unscaled>(planned().scaling) ||
                        (situation_.family != nullptr && !situation_.family->rope_parameters.empty());
    if (needed) {
      part_["rope_scaling"] = in_order_of(old, members);
    } else if (part_.contains("rope_scaling")) {
      part_["rope_scaling"] = nullptr;
    }
  }

  // Beside rope_scaling the bases stand at the top of the part.
  void write_bases(const OrderedJson& scaling) {
    const OrderedJson parameters = at("rope_parameters");
    const bool inside = scaling.is_object() && scaling.contains("rope_theta");
    const std::string key = base_key();
    if (!key.empty() && (parameters.is_object() || inside || planned().base != before().base))
      part_[key] = base_of(planned(), before(), inside ? scaling : parameters);
    const files::Family* family = situation_.family;
    if (!parameters.is_object() || family == nullptr || family->sliding_base_key.empty()) return;
    for (const std::size_t i : situation_.left) {
      const ModelRope& used = situation_.rope(i);
      if (used.part == situation_.part() && used.rope.base != family->sliding_base)
        part_[std::string(family->sliding_base_key)] = used.rope.base;
    }
  }

  // ---- beside the scaling ----

  void repeat_the_base() {
    if (planned().base == before().base) return;
    for (const char* key : repeated_bases)
      if (key != base_key() && at(key) == before().base) part_[key] = planned().base;
  }

  // transformers 5.23 takes head_dim from the config for these methods, which must not be null then.
  void state_head_dim() {
    const bool reads = plan_.method == "yarn" || plan_.method == "longrope";
    const bool by_class = situation_.family != nullptr && situation_.family->null_head_dim;
    const bool is_null = part_.contains("head_dim") ? part_["head_dim"].is_null() : by_class;
    const ModelRope& used = situation_.first();
    if (reads && is_null && used.first == 0) part_["head_dim"] = used.rope.head_dim;
  }

  void write_lengths() {
    if (situation_.stated_context() != plan_.max_position_embeddings)
      part_[length_key(*situation_.object())] = plan_.max_position_embeddings;
    const std::string original = "original_max_position_embeddings";
    const bool differs = part_.contains(original) ? part_[original] != situation_.trained : is_phi3();
    if (differs && scalings::has_key(planned().scaling, original)) part_[original] = situation_.trained;
  }

  const Situation& situation_;
  const MethodPlan& plan_;
  OrderedJson config_;
  OrderedJson& part_;  // the object of config_ that has the rope
};

// ---- read back ----

// A tower may turn several blocks of one head: each is a rope of its own.
bool has_layer(const ModelRope& used, const ModelRope& other, int layer) {
  return used.part == other.part && used.first == other.first && std::ranges::count(used.layers, layer) != 0;
}

// Equal but for the values that the family's own code makes of the parameters (DeepSeek-V4's yarn, Phi-3.5-MoE's
// lists).
bool means(const Situation& situation, const Scaling& planned, const Scaling& read) {
  if (planned == read) return true;
  if (planned.index() != read.index() || situation.family == nullptr) return false;
  const files::Quirk& quirk = *situation.family->quirk;
  const bool own = (std::holds_alternative<Yarn>(planned) && quirk.yarn != nullptr) ||
                   (std::holds_alternative<LongRope>(planned) && quirk.longrope != nullptr);
  return own && *factor_of(planned) == *factor_of(read);
}

// Whether every rope of the plan is read as planned, and every other as it was, layer by layer.
bool is_read_as_planned(const Situation& situation, const MethodPlan& plan, const Model& model) {
  const auto is_right = [&](std::size_t i, int layer) {
    const ModelRope& before = situation.rope(i);
    const auto read =
        std::ranges::find_if(model.ropes, [&](const ModelRope& used) { return has_layer(used, before, layer); });
    if (read == model.ropes.end()) return false;
    const bool splits = situation.splits(situation.request.model, before);
    if (splits && situation.splits(model, *read)) return false;  // layers that slide would be scaled too
    const Rope* planned = planned_rope(plan, i);
    const Rope& wanted = planned == nullptr || (splits && only_slides(model, *read)) ? before.rope : *planned;
    Rope same = read->rope;
    if (means(situation, wanted.scaling, same.scaling)) same.scaling = wanted.scaling;
    return same == wanted;
  };
  for (std::size_t i = 0; i < situation.request.model.ropes.size(); ++i) {
    for (const int layer : situation.rope(i).layers)
      if (!is_right(i, layer)) return false;
  }
  return true;
}

// The rope of the new model that layers of `used` have, and of those the one that was extended.
const Rope& extended_rope(const Model& model, const ModelRope& used) {
  const ModelRope* found = nullptr;
  for (const ModelRope& read : model.ropes) {
    const bool shares = std::ranges::any_of(used.layers, [&](int layer) { return has_layer(read, used, layer); });
    if (shares && (found == nullptr || only_slides(model, *found))) found = &read;
  }
  return found->rope;
}

struct Written {
  OrderedJson config = {};
  OrderedJson object = {};  // the value of the form's key
  std::string wrong = {};   // why the text cannot say the plan; "": it does
  Model model = {};         // as the text is read
};

Written written_in(Form form, const Situation& situation, const MethodPlan& plan) {
  Written written{.config = Editor(situation, plan).in(form)};
  written.object =
      files::object_at(written.config, situation.part())->value(form_keys[static_cast<int>(form)], OrderedJson());
  try {
    written.model = parse_config(files::config_text(written.config), situation.request.options);
    if (!is_read_as_planned(situation, plan, written.model)) written.wrong = "it is read otherwise";
  } catch (const Error& error) {
    written.wrong = std::string("it is refused, ") + error.what();
  }
  return written;
}

std::vector<Change> changes_between(const Situation& situation, const OrderedJson& config) {
  const OrderedJson root = files::parse_to_edit(situation.request.config);
  const OrderedJson &before = *files::object_at(root, situation.part()),
                    &after = *files::object_at(config, situation.part());
  const std::string above = situation.part().empty() ? "" : situation.part() + ".";
  std::vector<Change> changes;
  const auto add = [&](const std::string& key) {
    Change change{above + key, {}, {}};
    if (before.contains(key)) change.before = one_line(before[key]);
    if (after.contains(key)) change.after = one_line(after[key]);
    if (change.before != change.after) changes.push_back(std::move(change));
  };
  for (const auto& item : before.items()) add(item.key());
  for (const auto& item : after.items())
    if (!before.contains(item.key())) add(item.key());
  return changes;
}

}  // namespace

std::string one_line(const OrderedJson& value) {
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, inner] : value.items()) {
    text += (text.empty() ? "" : ", ") + (value.is_object() ? OrderedJson(key).dump() + ": " : "") + one_line(inner);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

std::string length_key(const Json& object) {
  files::Ledger ledger;
  return files::context_key(files::Object(object, "", ledger)).value_or("max_position_embeddings");
}

void write_config(const Situation& situation, MethodPlan& plan) {
  const Written parameters = written_in(Form::rope_parameters, situation, plan);
  const Written scaling = written_in(Form::rope_scaling, situation, plan);
  if (parameters.wrong.empty()) plan.rope_parameters = one_line(parameters.object);
  if (scaling.wrong.empty()) plan.rope_scaling = one_line(scaling.object);
  const bool old = Editor(situation, plan).own_form() == Form::rope_scaling;
  const Written &own = old ? scaling : parameters, &other = old ? parameters : scaling;
  const Written& taken = own.wrong.empty() ? own : other;
  if (!taken.wrong.empty()) {
    const std::string type = situation.family == nullptr ? "this model" : situation.family_type();
    plan.refused = "the config of " + type + " cannot say it: " + own.wrong;
    return;
  }
  plan.config = files::config_text(taken.config);
  plan.changes = changes_between(situation, taken.config);
  for (RopePlan& rope : plan.ropes) rope.planned = extended_rope(taken.model, situation.rope(rope.rope));
}

}  // namespace rotary::extend
