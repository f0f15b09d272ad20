#include <algorithm>

#include "steps.h"

namespace rotary::embedded {
std::string_view published_json() noexcept;  // data/published.json
}

namespace rotary::extend {
namespace {

// An object of rope_parameters whose numbers are known to be right.
Scaling scaling_of(const Json& object) {
  Scaling found;
  scalings::for_each_scaling([&](auto scaling) {
    if (object.at("rope_type") != scalings::rope_type_of(scaling)) return;
    scalings::for_each_field(scaling, [&](const auto& field, auto& value) {
      if (!object.contains(field.key)) return;
      if constexpr (requires { value.reset(); }) {
        object.at(field.key).get_to(value.emplace());
      } else {
        object.at(field.key).get_to(value);
      }
    });
    found = scaling;
  });
  return found;
}

Recipe recipe_of(const Json& row) {
  Recipe recipe{.says = {.publisher = row.at("publisher"),
                         .models = row.at("models"),
                         .method = "default",
                         .trained_length = row.at("trained_length"),
                         .context = row.at("context"),
                         .source = row.at("source"),
                         .other_weights = row.value("other_weights", ""),
                         .caution = row.value("caution", "")},
                .scaling = {},
                .row = row};
  if (!row.contains("scaling")) return recipe;
  recipe.scaling = scaling_of(row.at("scaling"));
  recipe.says.method = name(recipe.scaling);
  if (const double* factor = factor_of(recipe.scaling)) recipe.says.factor = *factor;
  return recipe;
}

bool holds(const auto& list, const auto& value) { return std::find(list.begin(), list.end(), value) != list.end(); }

// A string need only hold the wanted one: _name_or_path.
bool has_key(const Situation& situation, const std::string& key, const Json& wanted) {
  const Json* given = situation.value(key);
  if (given == nullptr || !given->is_string() || !wanted.is_string()) return given != nullptr && *given == wanted;
  return given->get_ref<const std::string&>().find(wanted.get_ref<const std::string&>()) != std::string::npos;
}

bool is_of(const Recipe& recipe, const Situation& situation) {
  const ModelRope& used = situation.first();
  const Json& row = recipe.row;
  // A GGUF file or params.json says the model's type alone.
  const std::string& own = part_of(situation.request.model, used.part).model_type;
  const std::string& type = own.empty() ? situation.request.model.model_type : own;
  const auto fits = [&](const char* key, auto value) { return !row.contains(key) || row.at(key) == value; };
  const int width = used.heads * used.rope.head_dim;
  const Json keys = row.value("keys", Json::object());
  const auto items = keys.items();
  return holds(row.at("types"), type) && fits("base", used.rope.base) && width >= row.value("min_width", 0) &&
         width <= row.value("max_width", width) && fits("kv_heads", used.kv_heads) && fits("part", used.part) &&
         std::all_of(items.begin(), items.end(),
                     [&](const auto& item) { return has_key(situation, item.key(), item.value()); });
}

// At most 1/16 shorter.
bool is_just_below(std::int64_t context, std::int64_t length) {
  return context <= length && context >= length - length / 16;
}

}  // namespace

const std::vector<Recipe>& published_recipes() {
  static const std::vector<Recipe> recipes = [] {
    std::vector<Recipe> all;
    const Json root = files::parse_json(embedded::published_json());
    for (const Json& object : root.at("recipes")) all.push_back(recipe_of(object));
    return all;
  }();
  return recipes;
}

bool Recipe::is_made_for(std::int64_t context) const {
  return is_just_below(context, says.context) || is_just_below(context, row.value("also", std::int64_t{0}));
}

bool Recipe::states(std::int64_t context) const { return holds(row.value("stated", Json::array()), context); }

const Recipe* published_for(const Situation& situation) {
  const Recipe* other = nullptr;
  for (const Recipe& recipe : published_recipes()) {
    if (!is_of(recipe, situation)) continue;
    if (recipe.is_made_for(situation.request.context)) return &recipe;
    if (other == nullptr) other = &recipe;
  }
  return other;
}

// Llama 3.1's, as factors: the same for texts of every length, and without the length before it.
bool Situation::has_factors_of_gguf() const {
  const auto* lists = std::get_if<LongRope>(&scaling());
  return lists != nullptr && !editable() && lists->short_factor == lists->long_factor;
}

bool Situation::is_published_scaling() const {
  if (published == nullptr || scaling().index() != published->scaling.index()) return false;
  if (const auto* lists = std::get_if<LongRope>(&scaling())) {
    const auto& theirs = std::get<LongRope>(published->scaling);
    return turns_by_short_factor_only() ? lists->short_factor == theirs.short_factor
                                        : lists->long_factor == theirs.long_factor;
  }
  const double* factor = factor_of(scaling());
  const auto* length = scalings::value_of<std::int64_t>(scaling(), "trained_length");
  return factor != nullptr && *factor == *factor_of(published->scaling) &&
         (length == nullptr || *length == published->says.trained_length);
}

bool Situation::are_published_weights() const {
  if (published == nullptr || is_published_scaling() || has_factors_of_gguf()) return published != nullptr;
  const std::int64_t stated = stated_context();
  const bool is_plain = stated == 0 || stated == published->says.trained_length || published->states(stated);
  // MiniCPM's files have lists that reach no further than the trained length.
  const Json& row = published->row;
  return row.value("by_hand", false) && (!is_scaled() || stated == trained) && is_plain &&
         first().heads * first().rope.head_dim >= row.value("own_width", 0) &&
         first().kv_heads <= row.value("own_kv_heads", first().kv_heads);
}

bool Situation::is_published_length() const {
  return published != nullptr && published->says.trained_length == trained;
}

bool Situation::is_published_context() const {
  if (!is_published_length()) return false;
  const double* factor = factor_of(published->scaling);
  return published->is_made_for(request.context) ||
         (factor != nullptr && is_just_below(request.context, reached(trained, *factor)));
}

bool Situation::is_published_exactly() const {
  return is_published_length() && (request.context == published->says.context ||
                                   request.context == published->row.value("also", std::int64_t{0}));
}

}  // namespace rotary::extend
