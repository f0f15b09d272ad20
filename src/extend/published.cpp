#include "published.h"

#include <algorithm>

#include "files/text/json.h"
#include "values/scaling_fields.h"

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

Published recipe_of(const Json& object) {
  Published recipe;
  recipe.scaling = scaling_of(object.at("scaling"));
  read(object, "types", recipe.types);
  read(object, "trained_length", recipe.trained_length);
  read(object, "context", recipe.context);
  read(object, "also", recipe.also);
  read(object, "publisher", recipe.publisher);
  read(object, "models", recipe.models);
  read(object, "source", recipe.source);
  read(object, "seen", recipe.seen);
  read(object, "base", recipe.base);
  read(object, "min_width", recipe.min_width);
  read(object, "max_width", recipe.max_width);
  read(object, "kv_heads", recipe.kv_heads);
  read(object, "name", recipe.name);
  read(object, "part", recipe.part);
  read(object, "stated", recipe.stated);
  read(object, "states_betas", recipe.states_betas);
  read(object, "sliding_window", recipe.sliding_window);
  recipe.why_less = "with weights trained on such lengths";
  read(object, "why_less", recipe.why_less);
  return recipe;
}

bool is_of(const Published& recipe, const ModelRope& used, std::string_view type, std::string_view name) {
  const int width = used.heads * used.rope.head_dim;
  return std::find(recipe.types.begin(), recipe.types.end(), type) != recipe.types.end() &&
         (recipe.base == 0 || recipe.base == used.rope.base) && width >= recipe.min_width &&
         (recipe.max_width == 0 || width <= recipe.max_width) &&
         (recipe.kv_heads == 0 || recipe.kv_heads == used.kv_heads) && name.find(recipe.name) != name.npos &&
         (!recipe.part || used.part == *recipe.part);
}

}  // namespace

const std::vector<Published>& published_recipes() {
  static const std::vector<Published> recipes = [] {
    std::vector<Published> all;
    const Json root = files::parse_json(embedded::published_json());
    for (const Json& object : root.at("recipes")) all.push_back(recipe_of(object));
    return all;
  }();
  return recipes;
}

bool is_just_below(std::int64_t context, std::int64_t length) {
  return context <= length && context >= length - length / 16;
}

bool Published::is_made_for(std::int64_t asked) const {
  return is_just_below(asked, context) || (also != 0 && is_just_below(asked, also));
}

bool Published::states_more(std::int64_t length) const {
  return std::find(stated.begin(), stated.end(), length) != stated.end();
}

const Published* published_for(const ModelRope& used, std::string_view type, std::string_view name,
                               std::int64_t context) {
  const Published* other = nullptr;
  for (const Published& recipe : published_recipes()) {
    if (!is_of(recipe, used, type, name)) continue;
    if (recipe.is_made_for(context)) return &recipe;
    if (other == nullptr) other = &recipe;
  }
  return other;
}

}  // namespace rotary::extend
