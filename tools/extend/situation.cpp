// The ropes that are extended, the length from which they are, and the published recipe.
#include <algorithm>
#include <cmath>

#include "config/stages.h"
#include "steps.h"
#include "subject/subject.h"

namespace rotary::embedded {
std::string_view published_json() noexcept;  // tools/extend/published.json
}

namespace rotary::extend {
namespace {

// Whether every layer that uses the rope slides.
bool only_slides(const Model& model, const ModelRope& used) {
  const std::vector<std::string> types = layer_types_of(model, used);
  return !types.empty() && std::ranges::all_of(types, files::has_sliding_rope);
}

constexpr std::int64_t longest_text = std::int64_t{1} << 53;  // a double counts its tokens

// The rope of the request or, without one, the first that counts the tokens of a text: towers have ropes too.
const ModelRope& chosen(const Request& request) {
  const auto text = std::ranges::find(request.model.ropes, false, &ModelRope::coordinates);
  if (!request.rope && text != request.model.ropes.end()) return *text;
  return chosen_rope(request.model, {.config = request.name, .rope = request.rope});
}

// Sets the ropes of the part's full-attention layers; all its ropes if every rope belongs to sliding layers.
void choose_targets(Situation& situation) {
  const std::string& part = chosen(situation.request).part;
  std::vector<std::size_t> sliding;
  for (std::size_t i = 0; i < situation.ropes().size(); ++i) {
    const ModelRope& used = situation.ropes()[i];
    if (used.part == part) (only_slides(situation.request.model, used) ? sliding : situation.targets).push_back(i);
  }
  if (situation.targets.empty()) situation.targets = sliding;
}

// The scaling of an object of rope_parameters whose numbers are known to be valid.
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

bool is_of(const Recipe& recipe, const Situation& situation) {
  const ModelRope& used = situation.first();
  const Json& row = recipe.row;
  // A GGUF file or params.json only states the model's type.
  const std::string& own = part_of(situation.request.model, used.part).model_type;
  const Json type = own.empty() ? situation.request.model.model_type : own;
  const auto fits = [&](const char* key, auto value) { return !row.contains(key) || row.at(key) == value; };
  const std::int64_t width = std::int64_t{used.heads} * used.rope.head_dim;
  if (std::ranges::count(row.at("types"), type) == 0 || width < row.value("min_width", 0) ||
      width > row.value("max_width", width) || !fits("base", used.rope.base) || !fits("kv_heads", used.kv_heads) ||
      !fits("part", used.part))
    return false;
  const auto* lists = std::get_if<LongRope>(&situation.scaling());  // they name the weights that they were found on
  const auto* theirs = std::get_if<LongRope>(&recipe.scaling);
  if (lists != nullptr && theirs != nullptr && lists->long_factor == theirs->long_factor) return true;
  const Json keys = row.value("keys", Json::object());
  for (const auto& [key, wanted] : keys.items()) {
    const Json& given = situation.value(key.c_str());
    // A string need only contain the wanted one: _name_or_path.
    const bool holds = given.is_string() && wanted.is_string() &&
                       given.get<std::string>().find(wanted.get<std::string>()) != std::string::npos;
    if (given != wanted && !holds) return false;
  }
  return true;
}

// Whether the context is at most 1/16 shorter than the length.
bool is_just_below(std::int64_t context, std::int64_t length) {
  return context <= length && context >= length - length / 16;
}

// The recipe that is made for this model and context, else the first for another context; null if none is known.
const Recipe* published_for(const Situation& situation) {
  const Recipe* other = nullptr;
  for (const Recipe& recipe : published_recipes()) {
    if (!is_of(recipe, situation)) continue;
    if (recipe.is_made_for(situation.request.context)) return &recipe;
    if (other == nullptr) other = &recipe;
  }
  return other;
}

// The length before any scaling and its source; 0 if it is unknown.
Start find_trained_length(const Situation& situation) {
  if (situation.request.trained_length) return {*situation.request.trained_length, "--trained-length"};
  const Scaling& scaling = situation.scaling();
  const std::int64_t stated = situation.stated_context(), original = situation.number(original_key);
  // The factors by pair of a GGUF file (Llama 3.1), and a static NTK, do not show it.
  const bool is_silent = (situation.root.is_null() && std::holds_alternative<LongRope>(scaling)) ||
                         std::holds_alternative<Ntk>(scaling) || std::holds_alternative<NtkFixed>(scaling);
  const std::int64_t* length = length_of(scaling);
  if (length != nullptr && !is_silent)
    return {*length, std::holds_alternative<Dynamic>(scaling) ? "max_position_embeddings" : original_key};
  const auto* linear = std::get_if<Linear>(&scaling);
  const files::Family* family = situation.family;
  const std::int64_t context = stated > 0 || family == nullptr ? stated : family->context;
  if (const Recipe* known = situation.published) {
    // A linear scaling has no length; it is known if the published scaling is the one in the file.
    const bool is_known = linear != nullptr ? known->scaling == scaling : is_silent || known->states(stated);
    if (is_known || (context == 0 && original == 0))
      return {known->says.trained_length, "published by " + known->says.publisher, known->says.publisher};
  }
  if (is_silent) return {};
  if (linear != nullptr && linear->factor > 1)
    return {static_cast<std::int64_t>(static_cast<double>(context) / linear->factor + 0.5),
            "max_position_embeddings / factor"};
  if (original > 0) return {original, original_key};
  return {context, stated > 0 ? "max_position_embeddings" : "the default of " + situation.family_type()};
}

// Finds the ropes, their family and the recipe of their publisher.
Situation look_up(const Request& request) {
  Situation situation{request};
  if (!request.config.empty()) situation.root = files::parse_json(request.config);
  choose_targets(situation);
  situation.family = files::find_family(part_of(request.model, situation.part()).model_type);
  situation.published = published_for(situation);
  situation.start = find_trained_length(situation);
  return situation;
}

void check_model(const Situation& situation) {
  const Json& root = situation.root;
  const bool is_params = !root.contains("model_type") && !root.contains("_class_name") &&
                         (root.contains("dim") || root.contains("n_heads"));
  const bool has_part = files::object_at(root, situation.part()) != nullptr;  // a key with a dot in its name is no path
  if (!has_part || is_params) {
    fail(Code::FORMAT, "extend", "a plan must start from a config.json of Hugging Face's form but got ",
         root.is_null() ? "a GGUF file"
         : has_part     ? "a params.json"
                        : "one whose rope lies at no path",
         ": plan from the config.json of the same model");
  }
  const ModelRope& first = situation.first();
  const std::string which =
      sentence_of("rope ", situation.targets.front(), first.part.empty() ? "" : " of ", first.part);
  const bool learned = !first.rope.inv_freq.empty() || !first.rope.multiplier.empty() ||
                       awaits_weights(situation.request.model, first.part);
  if (first.coordinates || learned) {
    fail(Code::ROPE, "extend", "a rope to extend must turn by the places of tokens in a text, from a base, but ", which,
         first.coordinates ? " turns by coordinates, as of an image's patches" : " learned its frequencies");
  }
  if (only_slides(situation.request.model, first) && !situation.is_scaled() && situation.published == nullptr) {
    fail(Code::ROPE, "extend", "a rope to extend must be one of layers that attend to the whole text but ", which,
         " is one of sliding layers: the model takes longer texts without a scaling");
  }
  if (situation.family != nullptr && !situation.family->reads_scaling) {
    fail(Code::ROPE, "extend", "a model to extend must read a scaling from its config but the code of ",
         situation.family_type(), " reads none");
  }
}

void check_lengths(const Situation& situation) {
  const std::int64_t context = situation.request.context, trained = situation.trained();
  const std::int64_t stated = situation.stated_context();
  const std::string& from = situation.start.trained_length_from;
  if (context > longest_text) fail(Code::VALUE, "extend", "--length must be at most 2^53 but got ", context);
  if (trained == 0) {
    fail(Code::CONFIG_MISSING, "extend",
         "the trained length must be known but the config does not state it: --trained-length gives it");
  }
  if (trained < 2 || trained > longest_text) {
    fail(Code::VALUE, "extend", "the trained length must be from 2 to 2^53 but got ", trained, " (", from,
         "): --trained-length gives another");
  }
  if (situation.is_within() && (stated <= 0 || context <= stated)) {
    fail(Code::VALUE, "extend", "--length must be above the trained length ", trained, " (", from, ") but got ",
         context, ": the model reads such texts without a scaling");
  }
}

Sentences warnings_of(const Situation& situation) {
  Sentences warnings;
  const double* factor = factor_of(situation.scaling());
  const std::int64_t stated = situation.stated_context(), window = situation.window();
  if (situation.is_scaled()) {
    warnings.push_back(sentence_of("the model is scaled already (", name(situation.scaling()),
                                   factor == nullptr ? "" : ", factor " + detail::significant(*factor, 6),
                                   "): the plan starts from the unscaled rope and ", situation.trained(), " tokens"));
  } else if (stated > situation.trained()) {
    warnings.push_back(sentence_of("max_position_embeddings ", stated, " is above the trained length ",
                                   situation.trained(), " (", situation.start.trained_length_from,
                                   "), from which the plan starts"));
  }
  if (layer_types_of(situation.request.model, situation.first()).empty() && window > 0 &&
      window < situation.request.context)
    warnings.push_back(
        sentence_of("sliding_window is ", window, ": where the model uses it, no token attends further back"));
  return warnings;
}

}  // namespace

const Json& published() {
  static const Json root = files::parse_json(embedded::published_json());
  return root;
}

const std::vector<Recipe>& published_recipes() {
  static const std::vector<Recipe> recipes = [] {
    std::vector<Recipe> all;
    std::ranges::transform(published().at("recipes"), std::back_inserter(all), recipe_of);
    return all;
  }();
  return recipes;
}

bool Recipe::is_made_for(std::int64_t context) const {
  return is_just_below(context, says.context) || is_just_below(context, row.value("also", std::int64_t{0}));
}

bool Recipe::states(std::int64_t context) const {
  return row.contains("stated") && std::ranges::count(row.at("stated"), Json(context)) != 0;
}

bool Situation::is_published_scaling() const {
  if (published == nullptr || scaling().index() != published->scaling.index()) return false;
  if (const auto* lists = std::get_if<LongRope>(&scaling())) {  // phimoe's long_factor is read as short_factor
    const auto& theirs = std::get<LongRope>(published->scaling);
    return lists->short_factor == theirs.short_factor || lists->long_factor == theirs.long_factor;
  }
  const double* factor = factor_of(scaling());
  const std::int64_t* length = length_of(scaling());
  return factor != nullptr && *factor == published->says.factor &&
         (length == nullptr || *length == published->says.trained_length);
}

bool Situation::are_published_weights() const {
  if (published == nullptr || is_published_scaling()) return published != nullptr;
  const Json& row = published->row;
  const std::int64_t stated = stated_context();
  const bool is_plain = stated == 0 || stated == published->says.trained_length || published->states(stated);
  // MiniCPM's files have lists that go no further than the trained length.
  return row.value("by_hand", false) && (!is_scaled() || stated == trained()) && is_plain &&
         std::int64_t{first().heads} * first().rope.head_dim >= row.value("own_width", 0) &&
         first().kv_heads <= row.value("own_kv_heads", first().kv_heads);
}

bool Situation::is_published_length() const {
  return published != nullptr && published->says.trained_length == trained();
}

bool Situation::is_published_context() const {
  if (!is_published_length()) return false;
  return published->is_made_for(request.context) ||
         is_just_below(request.context, reached(trained(), published->says.factor));
}

std::int64_t reached(std::int64_t trained, double factor) {
  return static_cast<std::int64_t>(std::min(static_cast<double>(trained) * factor + 0.5, 9e15));
}

const Json& Situation::value(const char* key) const {
  static const Json none;
  const Json* keys = files::object_at(root, part());
  return keys != nullptr && keys->contains(key) ? keys->at(key) : none;
}

std::int64_t Situation::number(const char* key) const {
  return value(key).is_number_integer() ? value(key).get<std::int64_t>() : 0;
}

std::int64_t Situation::window() const {
  return value("use_sliding_window") == Json(false) ? 0 : number("sliding_window");
}

bool Situation::of_layer_types() const {
  if (part_of(request.model, part()).layer_types.empty()) return false;
  const Json& parameters = value("rope_parameters");
  return std::ranges::any_of(parameters, [](const Json& one) { return one.is_object(); }) ||
         (family != nullptr && family->old != files::Old::one_for_all && family->old != files::Old::all_to_all);
}

bool Situation::extends(std::size_t rope, int layer) const {
  if (std::ranges::count(targets, rope) == 0) return false;
  const std::vector<std::string>& types = part_of(request.model, part()).layer_types;
  return types.empty() || !files::has_sliding_rope(types[static_cast<std::size_t>(layer)]) || !of_layer_types() ||
         only_slides(request.model, ropes()[rope]);
}

double Situation::smallest_factor() const {
  const auto length = static_cast<double>(trained());
  const auto wanted = static_cast<double>(std::max(request.context, trained()));
  double factor = wanted / length;
  while (factor * length < wanted) factor = std::nextafter(factor, 2 * factor);
  return factor;
}

bool Situation::is_scaled() const {
  if (std::holds_alternative<Ntk>(scaling())) return false;  // it is the trained base
  const double* factor = factor_of(scaling());
  return std::holds_alternative<LongRope>(scaling()) || (factor != nullptr && *factor > 1);
}

Start start_of(const Request& request) { return look_up(request).start; }

Situation situation_of(const Request& request) {
  Situation situation = look_up(request);
  check_model(situation);
  check_lengths(situation);
  situation.warnings = warnings_of(situation);
  return situation;
}

}  // namespace rotary::extend
