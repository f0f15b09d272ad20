// A plan as text: the new config.json in both forms of transformers, each read back and compared with the plan.
#include <algorithm>
#include <optional>

#include "config/stages.h"
#include "steps.h"

namespace rotary::extend {
namespace {

// The spelling of a rope's parameters: transformers 5 has the base among them, the older form beside them.
struct Form {
  const char *key, *other;
  bool has_base;
};
constexpr Form new_form{"rope_parameters", "rope_scaling", true}, old_form{"rope_scaling", "rope_parameters", false};
constexpr const char *partial_key = "partial_rotary_factor", *base_word = "rope_theta";

// Whether the key belongs to a scaling; all other members of its object stay.
bool belongs_to_a_scaling(const std::string& key) {
  bool found = files::is_listed(key,
                                "rope_type type alpha finetuned apply_yarn_scaling scaling_factor power "
                                "max_position_embeddings original_max_position_embeddings");
  scalings::for_each_scaling([&](const auto& scaling) { found = found || scalings::has_key(scaling, key); });
  return found && key != partial_key;
}

// The object with the members of another scaling, in the object's order; equal values keep their spelling.
OrderedJson rescaled(const OrderedJson& before, const OrderedJson& members) {
  OrderedJson object = OrderedJson::object();
  for (const auto& [key, value] : before.items())
    if (members.contains(key) || !belongs_to_a_scaling(key)) object[key] = value;
  for (const auto& [key, value] : members.items())
    if (!object.contains(key) || object[key] != value) object[key] = value;
  return object;
}

// The rope that a layer of rope i is to have.
const Rope& wanted(const Situation& situation, const MethodPlan& plan, std::size_t i, int layer) {
  return situation.extends(i, layer) ? std::ranges::find(plan.ropes, i, &RopePlan::rope)->planned
                                     : situation.ropes()[i].rope;
}

// The config of a plan in one form.
class Editor {
 public:
  Editor(const Situation& situation, const MethodPlan& plan)
      : situation_(situation),
        plan_(plan),
        config_(files::parse_to_edit(situation.request.config)),
        part_(*files::object_at(config_, situation.part())) {}

  // If no rope changes, the file's object stays.
  OrderedJson in(const Form& form) {
    const bool stays = std::ranges::all_of(
        plan_.ropes, [&](const RopePlan& rope) { return rope.planned == situation_.ropes()[rope.rope].rope; });
    if (!stays || &form != &own_form()) write(form);
    write_lengths();
    state_head_dim();
    return config_;
  }

  // The form of the file, or of the transformers version that wrote it.
  const Form& own_form() const {
    if (at(old_form.key).is_object()) return old_form;
    const bool is_new = files::string_of(situation_.root, "transformers_version").starts_with("5.");
    const bool has_old = part_.contains(old_form.key) || part_.contains(base_word);
    // A base one level down (DBRX) is not read beside the older form.
    const bool is_below = base_key().find('.') != std::string::npos;
    return part_.contains(new_form.key) || is_below || (is_new && !has_old) ? new_form : old_form;
  }

 private:
  OrderedJson at(const std::string& key) const { return part_.value(key, OrderedJson()); }  // null if it is absent

  // The key of the base in the file, or the family's key.
  std::string base_key() const {
    if (situation_.family == nullptr) return base_word;
    std::string own;
    for (const std::string_view key : situation_.family->base_key) {
      if (part_.contains(key)) return std::string(key);
      if (own.empty() && key.find('.') == key.npos) own = key;
    }
    return own;
  }

  // The object with the parameters of a rope in place of its own.
  OrderedJson entry(const Form& form, const Rope& rope, const OrderedJson& before) const {
    const std::string_view word = scalings::rope_type_of(rope.scaling);
    // The oldest key for rope_type stays if its value is the same; families of layer types do not read it.
    const bool has_type = !form.has_base && !situation_.of_layer_types() && !before.contains("rope_type") &&
                          before.contains("type") && before["type"] == word;
    OrderedJson members = {{has_type ? "type" : "rope_type", word}};
    if (form.has_base) members[base_word] = rope.base;
    if (form.has_base && part_.contains(partial_key) && !before.contains(partial_key))
      members[partial_key] = part_[partial_key];
    const auto is_kept = [&](const auto& field) {
      return scalings::is_always_stated(field) || before.contains(field.key);
    };
    scalings::for_each_stated(rope.scaling, is_kept, [&](const auto& field, const auto& value) {
      // rotary's own keys are implied by the rope_type of such a yarn.
      if (field.reads.key_of != scalings::KeyOf::rotary) members[field.key] = value;
    });
    OrderedJson object = rescaled(before, members);
    if (!form.has_base) object.erase(base_word);
    return object;
  }

  void write(const Form& form) {
    const OrderedJson own = at(form.key), scaling = at(old_form.key);
    const OrderedJson before = scaling.is_object() ? scaling : at(new_form.key);
    if (form.has_base && situation_.of_layer_types()) {
      write_entries(own);
    } else {
      write_one(form, before.is_object() ? before : OrderedJson::object());
    }
    part_.erase(form.other);
    const std::string key = base_key();
    if (form.has_base && !own.is_object()) part_.erase(key);
    if (!form.has_base && before.contains(base_word) && !key.empty()) part_[key] = situation_.first().rope.base;
  }

  void write_one(const Form& form, const OrderedJson& before) {
    const Rope& planned = plan_.ropes.front().planned;
    OrderedJson object = entry(form, planned, before);
    const files::Family* family = situation_.family;
    if (family != nullptr && family->yarn_is_longrope && !form.has_base && plan_.method == "longrope")
      // Microsoft's code reads three keys.
      object = {{"type", "longrope"}, {"short_factor", object["short_factor"]}, {"long_factor", object["long_factor"]}};
    const bool scales = object.size() > 1 || !std::holds_alternative<Unscaled>(planned.scaling) ||
                        (family != nullptr && !family->rope_parameters.empty());
    if (scales || part_.contains(form.key)) part_[form.key] = scales ? object : OrderedJson();
  }

  // One entry for each layer type; existing entries stay, except those of extended ropes.
  void write_entries(const OrderedJson& before) {
    OrderedJson& entries = part_[new_form.key];
    if (!before.is_object()) entries = OrderedJson::object();
    const std::vector<std::string>& types = part_of(situation_.request.model, situation_.part()).layer_types;
    for (std::size_t i = 0; i < situation_.ropes().size(); ++i) {
      const ModelRope& used = situation_.ropes()[i];
      if (used.part != situation_.part()) continue;
      for (const int layer : used.layers) {
        const std::string& type = types[static_cast<std::size_t>(layer)];
        if (!situation_.extends(i, layer) && entries.contains(type)) continue;
        entries[type] =
            entry(new_form, wanted(situation_, plan_, i, layer), entries.value(type, OrderedJson::object()));
      }
    }
  }

  // For these methods transformers 5.24 reads head_dim from the config, where it must not be null.
  void state_head_dim() {
    const bool reads = plan_.method == "yarn" || plan_.method == "longrope";
    const bool by_class = situation_.family != nullptr && situation_.family->null_head_dim;
    const bool is_null = part_.contains("head_dim") ? part_["head_dim"].is_null() : by_class;
    const ModelRope& used = situation_.first();
    if (reads && is_null && used.first == 0) part_["head_dim"] = used.rope.head_dim;
  }

  void write_lengths() {
    if (situation_.stated_context() != plan_.max_position_embeddings)
      part_[length_key(situation_)] = plan_.max_position_embeddings;
    if (part_.contains(original_key) && scalings::has_key(plan_.ropes.front().planned.scaling, original_key))
      part_[original_key] = situation_.trained();
  }

  const Situation& situation_;
  const MethodPlan& plan_;
  OrderedJson config_;
  OrderedJson& part_;  // the object of config_ that has the rope
};

// The rope of that layer, or nothing. A tower may have several rotated blocks in one head: each is a rope. Its pairing
// is the plan's, since the text does not state it.
std::optional<Rope> rope_of(const Model& model, const ModelRope& like, int layer) {
  const auto read = std::ranges::find_if(model.ropes, [&](const ModelRope& used) {
    return used.part == like.part && used.first == like.first && std::ranges::count(used.layers, layer) != 0;
  });
  if (read == model.ropes.end()) return std::nullopt;
  Rope rope = read->rope;
  rope.pairing = like.rope.pairing;
  return rope;
}

// Whether the ropes are equal, except for values that the family's code derives (DeepSeek-V4, Phi-3.5-MoE).
bool means(const Situation& situation, const Rope& planned, Rope read) {
  const files::Quirk* quirk = situation.family == nullptr ? nullptr : situation.family->quirk;
  if (quirk != nullptr && (quirk->yarn != nullptr || quirk->longrope != nullptr) &&
      planned.scaling.index() == read.scaling.index() && factor_of(read.scaling) != nullptr &&
      *factor_of(planned.scaling) == *factor_of(read.scaling))
    read.scaling = planned.scaling;
  return read == planned;
}

struct Written {
  OrderedJson config = {};
  std::string object = {};           // the value of the form's key
  std::string wrong = {};            // why the text cannot express the plan, or ""
  std::vector<RopePlan> ropes = {};  // as read from the text
};

// Compares every rope of the plan with the one read back, and every other rope with the former one, layer by layer.
Written written_in(const Form& form, const Situation& situation, const MethodPlan& plan) {
  Written written{.config = Editor(situation, plan).in(form), .ropes = plan.ropes};
  try {
    const Model model = parse_config(files::config_text(written.config), situation.request.options);
    for (std::size_t i = 0; i < situation.ropes().size(); ++i) {
      for (const int layer : situation.ropes()[i].layers) {
        const std::optional<Rope> read = rope_of(model, situation.ropes()[i], layer);
        if (!read || !means(situation, wanted(situation, plan, i, layer), *read))
          written.wrong = "it is read otherwise";
        else if (situation.extends(i, layer))
          std::ranges::find(written.ropes, i, &RopePlan::rope)->planned = *read;
      }
    }
  } catch (const Error& error) {
    written.wrong = std::string("it is refused, ") + error.what();
  }
  if (written.wrong.empty())
    written.object = one_line(files::object_at(written.config, situation.part())->value(form.key, OrderedJson()));
  return written;
}

std::vector<Change> changes_between(const Situation& situation, const OrderedJson& config) {
  const OrderedJson root = files::parse_to_edit(situation.request.config);
  const OrderedJson &before = *files::object_at(root, situation.part()),
                    &after = *files::object_at(config, situation.part());
  const std::string above = situation.part().empty() ? "" : situation.part() + ".";
  std::vector<Change> changes;
  const auto old_members = files::members_of(before), new_members = files::members_of(after);
  const auto add = [&](const std::string& key) {
    Change change{above + key};
    if (old_members.contains(key)) change.before = one_line(*old_members.at(key));
    if (new_members.contains(key)) change.after = one_line(*new_members.at(key));
    if (change.before != change.after) changes.push_back(change);
  };
  for (const auto& [key, value] : before.items()) add(key);
  for (const auto& [key, value] : after.items())
    if (!old_members.contains(key)) add(key);
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

std::string length_key(const Situation& situation) {
  files::Ledger ledger;
  const files::Object part(*files::object_at(situation.root, situation.part()), "", ledger);
  return files::context_key(part).value_or("max_position_embeddings");
}

void write_config(const Situation& situation, MethodPlan& plan) {
  const Written fresh = written_in(new_form, situation, plan), old = written_in(old_form, situation, plan);
  plan.rope_parameters = fresh.object;
  plan.rope_scaling = old.object;
  const bool is_old = &Editor(situation, plan).own_form() == &old_form;
  const Written &own = is_old ? old : fresh, &other = is_old ? fresh : old;
  const Written& chosen = own.wrong.empty() ? own : other;
  if (!chosen.wrong.empty()) {
    plan.refused = "the config of " + situation.family_type() + " cannot say it: " + own.wrong;
    return;
  }
  plan.config = files::config_text(chosen.config);
  plan.changes = changes_between(situation, chosen.config);
  plan.ropes = chosen.ropes;
}

}  // namespace rotary::extend
