#include <algorithm>

#include "steps.h"

namespace rotary::embedded {
std::string_view published_json() noexcept;  // data/published.json
}

namespace rotary::extend {
namespace {

using files::Json;

template <class Value>
void read(const Json& object, const char* key, Value& value) {
  if (object.contains(key)) value = object.at(key).get<Value>();
}
template <class Value>
void read(const Json& object, const char* key, std::optional<Value>& value) {
  if (object.contains(key)) value = object.at(key).get<Value>();
}

// An object of rope_parameters whose numbers are known to be right.
Scaling scaling_of(const Json& object) {
  Scaling found;
  scalings::for_each_scaling([&](auto scaling) {
    if (object.at("rope_type") != scalings::rope_type_of(scaling)) return;
    scalings::for_each_field(scaling, [&](const auto& field, auto& value) { read(object, field.key, value); });
    found = scaling;
  });
  return found;
}

Recipe recipe_of(const Json& object) {
  Recipe recipe;
  recipe.scaling = scaling_of(object.at("scaling"));
  recipe.says.method = method_of(recipe.scaling);
  if (const double* factor = factor_of(recipe.scaling)) recipe.says.factor = *factor;
  read(object, "publisher", recipe.says.publisher);
  read(object, "models", recipe.says.models);
  read(object, "trained_length", recipe.says.trained_length);
  read(object, "context", recipe.says.context);
  read(object, "source", recipe.says.source);
  read(object, "types", recipe.types);
  read(object, "also", recipe.also);
  read(object, "seen", recipe.seen);
  read(object, "base", recipe.base);
  read(object, "min_width", recipe.min_width);
  read(object, "max_width", recipe.max_width);
  read(object, "kv_heads", recipe.kv_heads);
  read(object, "name", recipe.name);
  read(object, "part", recipe.part);
  read(object, "other_weights", recipe.says.other_weights);
  read(object, "caution", recipe.says.caution);
  read(object, "instead", recipe.instead);
  read(object, "by_hand", recipe.by_hand);
  read(object, "own_width", recipe.own_width);
  read(object, "own_kv_heads", recipe.own_kv_heads);
  read(object, "stated", recipe.stated);
  read(object, "states_betas", recipe.states_betas);
  read(object, "sliding_window", recipe.sliding_window);
  read(object, "why_less", recipe.why_less);
  return recipe;
}

bool holds(const auto& list, const auto& value) { return std::find(list.begin(), list.end(), value) != list.end(); }

bool is_of(const Recipe& recipe, const ModelRope& used, std::string_view type, std::string_view name) {
  const int width = used.heads * used.rope.head_dim;
  return holds(recipe.types, type) && (recipe.base == 0 || recipe.base == used.rope.base) &&
         width >= recipe.min_width && (recipe.max_width == 0 || width <= recipe.max_width) &&
         (recipe.kv_heads == 0 || recipe.kv_heads == used.kv_heads) && name.find(recipe.name) != name.npos &&
         (!recipe.part || used.part == *recipe.part);
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

bool is_just_below(std::int64_t context, std::int64_t length) {
  return context <= length && context >= length - length / 16;
}

bool Recipe::is_made_for(std::int64_t context) const {
  return is_just_below(context, says.context) || (also != 0 && is_just_below(context, also));
}

bool Recipe::states_more(std::int64_t context) const { return holds(stated, context); }

const Recipe* published_for(const ModelRope& used, std::string_view type, std::string_view name, std::int64_t context) {
  const Recipe* other = nullptr;
  for (const Recipe& recipe : published_recipes()) {
    if (!is_of(recipe, used, type, name)) continue;
    if (recipe.is_made_for(context)) return &recipe;
    if (other == nullptr) other = &recipe;
  }
  return other;
}

// ---- whether the file is of the weights that a recipe is for ----

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
  const std::int64_t stated = first().context;
  const bool is_plain = stated == 0 || stated == published->says.trained_length || published->states_more(stated);
  return published->by_hand && !is_scaled() && is_plain &&
         first().heads * first().rope.head_dim >= published->own_width &&
         (published->own_kv_heads == 0 || first().kv_heads <= published->own_kv_heads);
}

}  // namespace rotary::extend
