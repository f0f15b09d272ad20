#include <algorithm>

#include "steps.h"

namespace rotary::embedded {
std::string_view published_json() noexcept;  // data/published.json
}

namespace rotary::extend {
namespace {

using files::Json;

// Each key that is there, into the value behind it.
template <class Value, class... Rest>
void read(const Json& object, const char* key, Value& value, Rest&&... rest) {
  if (object.contains(key)) {
    if constexpr (requires { value.reset(); }) {
      object.at(key).get_to(value.emplace());
    } else {
      object.at(key).get_to(value);
    }
  }
  if constexpr (sizeof...(rest) > 0) read(object, rest...);
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
  Publication& says = recipe.says;
  if (object.contains("scaling")) recipe.scaling = scaling_of(object.at("scaling"));
  says.method = method_of(recipe.scaling);
  if (const double* factor = factor_of(recipe.scaling)) says.factor = *factor;
  read(object, "publisher", says.publisher, "models", says.models, "source", says.source, "other_weights",
       says.other_weights, "caution", says.caution, "trained_length", says.trained_length, "context", says.context);
  read(object, "seen", recipe.seen, "types", recipe.types, "base", recipe.base, "min_width", recipe.min_width,
       "max_width", recipe.max_width, "kv_heads", recipe.kv_heads, "keys", recipe.keys, "part", recipe.part);
  read(object, "also", recipe.also, "stated", recipe.stated, "by_hand", recipe.by_hand, "own_width", recipe.own_width,
       "own_kv_heads", recipe.own_kv_heads, "instead", recipe.instead, "elsewhere", recipe.elsewhere, "states_betas",
       recipe.states_betas, "sliding_window", recipe.sliding_window, "why_less", recipe.why_less);
  return recipe;
}

bool holds(const auto& list, const auto& value) { return std::find(list.begin(), list.end(), value) != list.end(); }

// A string need only hold what is asked for: _name_or_path.
bool has_key(const Situation& situation, const std::string& key, const Json& wanted) {
  const Json* given = situation.value(key);
  if (given == nullptr || !given->is_string() || !wanted.is_string()) return given != nullptr && *given == wanted;
  return given->get_ref<const std::string&>().find(wanted.get_ref<const std::string&>()) != std::string::npos;
}

bool is_of(const Recipe& recipe, const Situation& situation) {
  const ModelRope& used = situation.first();
  // A GGUF file or params.json says the model's type alone.
  const std::string& type = used.model_type.empty() ? situation.request.model.model_type : used.model_type;
  const int width = used.heads * used.rope.head_dim;
  const auto keys = recipe.keys.items();
  return holds(recipe.types, type) && (recipe.base == 0 || recipe.base == used.rope.base) &&
         width >= recipe.min_width && (recipe.max_width == 0 || width <= recipe.max_width) &&
         (recipe.kv_heads == 0 || recipe.kv_heads == used.kv_heads) &&
         (recipe.part == "any" || used.part == recipe.part) &&
         std::all_of(keys.begin(), keys.end(),
                     [&](const auto& item) { return has_key(situation, item.key(), item.value()); });
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

const Recipe* published_for(const Situation& situation) {
  const Recipe* other = nullptr;
  for (const Recipe& recipe : published_recipes()) {
    if (!is_of(recipe, situation)) continue;
    if (recipe.is_made_for(situation.request.context)) return &recipe;
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
  const bool is_plain = stated == 0 || stated == published->says.trained_length || holds(published->stated, stated);
  // MiniCPM's files have lists that reach no further than the trained length.
  return published->by_hand && (!is_scaled() || stated == trained) && is_plain &&
         first().heads * first().rope.head_dim >= published->own_width &&
         (published->own_kv_heads == 0 || first().kv_heads <= published->own_kv_heads);
}

}  // namespace rotary::extend
