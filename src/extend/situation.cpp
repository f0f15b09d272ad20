#include <algorithm>
#include <cmath>

#include "files/config/stages.h"
#include "files/models/quirks/quirk.h"
#include "files/text/io.h"
#include "steps.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::extend {
namespace {

using detail::spelled;

constexpr std::int64_t longest_text = std::int64_t{1} << 53;  // a double counts its tokens

template <class... Parts>
[[noreturn]] void refuse(Code code, const Parts&... sentence) {
  fail(code, "extend", sentence...);
}

std::string in_part(const ModelRope& used) { return used.part.empty() ? "" : " of " + used.part; }

// ---- the ropes ----

// Rope 0 is that of the language model; towers come after it.
std::size_t chosen(const Request& request) {
  const std::vector<ModelRope>& ropes = request.model.ropes;
  if (ropes.empty()) {
    std::string why;
    for (const Note& note : request.model.notes) why += (why.empty() ? "" : " ") + sentence_of(note);
    refuse(Code::ROPE, "a model to extend must have a rope but has none: ", why);
  }
  if (request.rope && *request.rope >= ropes.size()) {
    refuse(Code::ROPE, "--rope must be below the model's number of ropes, ", ropes.size(),
           ", and counts from 0 but got ", *request.rope);
  }
  if (request.rope) return *request.rope;
  const auto text = std::find_if(ropes.begin(), ropes.end(), [](const ModelRope& used) { return !used.coordinates; });
  return text == ropes.end() ? 0 : static_cast<std::size_t>(text - ropes.begin());
}

// The ropes of the part whose layers attend to everything; all of them where every rope is a sliding layer's.
void choose_targets(Situation& situation) {
  const std::vector<ModelRope>& ropes = situation.request.model.ropes;
  const std::string& part = ropes[chosen(situation.request)].part;
  bool all_slide = true, typed = true;
  double largest_base = 0;
  for (const ModelRope& used : ropes) {
    if (used.part != part) continue;
    all_slide = all_slide && only_slides(situation.request.model, used);
    typed = typed && !layer_types_of(situation.request.model, used).empty();
    largest_base = std::max(largest_base, used.rope.base);
  }
  for (std::size_t i = 0; i < ropes.size(); ++i) {
    bool full = all_slide || !only_slides(situation.request.model, ropes[i]);
    // A GGUF or params.json file has no layer types: there the sliding layers have the smaller base.
    if (!typed) full = situation.editable() || ropes[i].rope.base == largest_base;
    (ropes[i].part == part && full ? situation.targets : situation.left).push_back(i);
  }
}

// The ropes, and what is known of their family and makers.
Situation look_up(const Request& request) {
  Situation situation{request};
  if (situation.editable()) situation.root = files::parse_json(request.config);
  choose_targets(situation);
  situation.family = files::find_family(part_of(request.model, situation.part()).model_type);
  situation.published = published_for(situation);
  return situation;
}

// ---- refusals ----

// Throws where no scaling can change the rope.
void check_target(const Situation& situation, std::size_t index) {
  const ModelRope& used = situation.rope(index);
  const std::string which = "rope " + std::to_string(index) + in_part(used);
  if (used.coordinates) {
    refuse(Code::ROPE, "a rope to extend must turn by the places of tokens in a text but ", which,
           " turns by coordinates, as of an image's patches");
  }
  if (!used.rope.inv_freq.empty() || !used.rope.multiplier.empty() ||
      awaits_weights(situation.request.model, used.part)) {
    refuse(Code::ROPE, "a rope to extend must compute its frequencies from a base but ", which,
           " learned them: no scaling of a config changes them");
  }
}

void check_model(const Situation& situation) {
  const Json& root = situation.root;
  const bool is_params = !root.contains("model_type") && !root.contains("_class_name") &&
                         (root.contains("dim") || root.contains("n_heads"));
  if (root.is_null() || is_params) {
    refuse(Code::FORMAT, "a plan must start from a config.json of Hugging Face's form but got ",
           root.is_null() ? "a GGUF file" : "a params.json", ": plan from the config.json of the same model");
  }
  // A key with a dot or a control character in its name is no path.
  if (situation.object() == nullptr) {
    refuse(Code::ROPE, "a config to change must hold an object at the place of its rope but ",
           files::in_quotes(situation.part()), " is none");
  }
  for (const std::size_t i : situation.targets) check_target(situation, i);
  if (situation.all_slide() && !situation.is_scaled() && situation.published == nullptr) {
    const std::int64_t window = situation.number("sliding_window");
    refuse(Code::ROPE,
           "a rope to extend must be one of layers that attend to the whole text but only the sliding layers",
           in_part(situation.first()), " have one",
           window > 0 ? ", with a window of " + std::to_string(window) : std::string(),
           ": no two of their tokens are further apart than in training, and the model takes longer texts "
           "without a scaling");
  }
  if (situation.family != nullptr && !situation.family->reads_scaling) {
    refuse(Code::ROPE, "a model to extend must read a scaling from its config but the code of ",
           situation.family_type(), " reads none");
  }
}

void check_context(const Situation& situation) {
  const std::int64_t context = situation.request.context;
  if (context > longest_text) refuse(Code::VALUE, "--length must be at most 2^53 but got ", context);
  const std::int64_t stated = situation.stated_context();
  if (!situation.is_within() || (stated > 0 && context > stated)) return;
  const Recipe* known = situation.published;
  std::string hint;
  if (known != nullptr && known->says.trained_length < situation.trained && context > known->says.trained_length) {
    hint = "; where the length of the config was raised without training, as some files of " + known->says.models +
           " have it, --trained-length " + std::to_string(known->says.trained_length) + " plans from the length that " +
           known->says.publisher + " publishes";
  }
  refuse(Code::VALUE, "--length must be above the trained length ", situation.trained, " (", situation.trained_from,
         ") but got ", context, ": the model takes such texts as it is", hint);
}

// ---- the trained length ----

struct Length {
  std::int64_t tokens = 0;
  std::string from;
};

Length published_length(const Situation& situation) {
  return {situation.published->says.trained_length, "published by " + situation.published->says.publisher};
}

void warn_of_raised(Situation& situation, std::int64_t trained, const std::string& who) {
  const std::string length = std::to_string(trained);
  situation.warnings.push_back("max_position_embeddings " + std::to_string(situation.stated_context()) +
                               " is above the trained length " + length + " that " + who + ": the plan starts from " +
                               length);
}

std::optional<Length> length_in_scaling(Situation& situation) {
  const Scaling& scaling = situation.scaling();
  const std::string rule = "the trained length must be known but the file's ";
  if (situation.has_factors_of_gguf()) {
    if (situation.published != nullptr) return published_length(situation);
    refuse(Code::CONFIG_MISSING, rule, "factors by pair do not say it: --trained-length gives it");
  }
  if (const auto* length = scalings::value_of<std::int64_t>(scaling, "trained_length")) {
    return Length{*length, std::holds_alternative<Dynamic>(scaling) ? "max_position_embeddings"
                                                                    : "original_max_position_embeddings"};
  }
  const auto* linear = std::get_if<Linear>(&scaling);
  // A linear scaling says no length; a published one is the one that was read.
  if (linear != nullptr && situation.published != nullptr && situation.published->scaling == scaling)
    return published_length(situation);
  const std::int64_t by_default = situation.family == nullptr ? 0 : situation.family->context;
  const std::int64_t context = situation.stated_context() > 0 ? situation.stated_context() : by_default;
  if (linear != nullptr && context > 0 && linear->factor > 1) {
    situation.warnings.push_back("the file's linear scaling, factor " + spelled(linear->factor) +
                                 ", does not say whether max_position_embeddings " + std::to_string(context) +
                                 " is the length before or after it: it is taken as the one after; "
                                 "--trained-length says otherwise");
    return Length{static_cast<std::int64_t>(static_cast<double>(context) / linear->factor + 0.5),
                  "max_position_embeddings / factor"};
  }
  if (std::holds_alternative<Ntk>(scaling) || std::holds_alternative<NtkFixed>(scaling)) {
    if (situation.published != nullptr) return published_length(situation);
    refuse(Code::CONFIG_MISSING, rule, "scaling ", name(scaling), " does not say it: --trained-length gives it");
  }
  return std::nullopt;
}

Length length_of_unscaled(Situation& situation) {
  const std::int64_t context = situation.stated_context();
  const Recipe* known = situation.published;
  if (known != nullptr && known->states(context)) {
    if (context > known->says.trained_length)
      warn_of_raised(situation, known->says.trained_length, known->says.publisher + " publishes");
    return published_length(situation);
  }
  const char* original = "original_max_position_embeddings";
  if (const std::int64_t stated = situation.number(original); stated > 0) {
    if (context > stated) warn_of_raised(situation, stated, std::string(original) + " says");
    return {stated, original};
  }
  if (context > 0) return {context, "max_position_embeddings"};
  if (situation.family != nullptr && situation.family->context > 0) {
    const Length length{situation.family->context, "the default of " + situation.family_type()};
    situation.warnings.push_back("max_position_embeddings is not given: the trained length is taken as " +
                                 std::to_string(length.tokens) + ", " + length.from);
    return length;
  }
  if (known != nullptr) return published_length(situation);
  refuse(Code::CONFIG_MISSING,
         "the trained length must be known but the config has no max_position_embeddings: --trained-length gives it");
}

void set_trained_length(Situation& situation) {
  Length length;
  if (const auto given = situation.request.trained_length) {
    if (*given < 2 || *given > longest_text)
      refuse(Code::VALUE, "--trained-length must be from 2 to 2^53 but got ", *given);
    length = {*given, "--trained-length"};
    if (!situation.is_scaled() && situation.stated_context() > *given)
      warn_of_raised(situation, *given, "--trained-length gives");
  } else {
    const auto scaled = length_in_scaling(situation);
    length = scaled ? *scaled : length_of_unscaled(situation);
  }
  if (length.tokens < 2) {
    refuse(Code::VALUE, "the trained length must be at least 2 but got ", length.tokens, " (", length.from,
           "): --trained-length gives another");
  }
  situation.trained = length.tokens;
  situation.trained_from = length.from;
}

// ---- the file's own scaling ----

// Tokens that the file states for its own scaling, else that its factor reaches; 0: it has no scaling, or one that
// follows the length.
std::int64_t taken_by_the_file(const Situation& situation) {
  if (!situation.is_scaled() || std::holds_alternative<Dynamic>(situation.scaling())) return 0;
  const double* factor = factor_of(situation.scaling());
  const std::int64_t stated = situation.stated_context();
  return stated > situation.trained || factor == nullptr ? stated : reached(situation.trained, *factor);
}

void warn_of_own_scaling(Situation& situation) {
  const Scaling& scaling = situation.scaling();
  const double* factor = factor_of(scaling);
  if (std::holds_alternative<Ntk>(scaling)) {
    situation.warnings.push_back("the model was trained with a static NTK base, which stays: alpha " +
                                 spelled(*factor) + ", as rope_theta " +
                                 detail::significant(unscaled(situation.first().rope).base, 10));
  }
  if (!situation.is_scaled()) return;
  situation.warnings.push_back(std::string("the model is scaled already (") + name(scaling) +
                               (factor == nullptr ? "" : ", factor " + detail::significant(*factor, 6)) +
                               "): the plan starts from the unscaled rope and " + std::to_string(situation.trained) +
                               " tokens");
  const std::int64_t taken = taken_by_the_file(situation);
  if (situation.request.context < taken && !situation.is_own_context()) {
    situation.warnings.push_back("the file takes " + std::to_string(taken) +
                                 " tokens as it is: weights that were trained with its scaling need no other for " +
                                 std::to_string(situation.request.context));
  }
}

}  // namespace

bool only_slides(const Model& model, const ModelRope& used) {
  const std::vector<std::string> types = layer_types_of(model, used);
  return !types.empty() && std::all_of(types.begin(), types.end(), files::has_sliding_rope);
}

std::int64_t reached(std::int64_t trained, double factor) {
  return static_cast<std::int64_t>(std::min(static_cast<double>(trained) * factor + 0.5, 9e15));
}

const Json* Situation::value(const std::string& key) const {
  const Json* keys = object();
  return keys != nullptr && keys->contains(key) ? &keys->at(key) : nullptr;
}

const Json* Situation::dict(const std::string& key) const {
  const Json* found = value(key);
  return found != nullptr && found->is_object() ? found : nullptr;
}

std::int64_t Situation::number(const std::string& key) const {
  const Json* found = value(key);
  return found != nullptr && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

bool Situation::of_layer_types() const {
  const Json* parameters = dict("rope_parameters");
  const auto is_object = [](const Json& one) { return one.is_object(); };
  if (parameters != nullptr && std::any_of(parameters->begin(), parameters->end(), is_object)) return true;
  return family != nullptr && family->old != files::Old::one_for_all && family->old != files::Old::all_to_all;
}

bool Situation::turns_by_short_factor_only() const { return family != nullptr && family->quirk->longrope != nullptr; }

bool Situation::splits(const Model& model, const ModelRope& used) const {
  const std::vector<std::string> types = layer_types_of(model, used);
  return of_layer_types() && !only_slides(model, used) && std::any_of(types.begin(), types.end(), files::has_sliding_rope);
}

bool Situation::all_slide() const {
  return std::all_of(targets.begin(), targets.end(), [&](std::size_t i) { return only_slides(request.model, rope(i)); });
}

std::int64_t Situation::window() const {
  const Json* uses = value("use_sliding_window");
  const bool on = uses == nullptr || (uses->is_boolean() && uses->get<bool>());
  return on ? std::max<std::int64_t>(number("sliding_window"), 0) : 0;
}

double Situation::smallest_factor() const {
  const auto length = static_cast<double>(trained);
  const auto wanted = static_cast<double>(std::max(request.context, trained));
  double factor = wanted / length;
  while (factor * length < wanted) factor = std::nextafter(factor, 2 * factor);
  return factor;
}

bool Situation::is_scaled() const {
  if (std::holds_alternative<Ntk>(scaling())) return false;  // the base of the training in other words
  const double* factor = factor_of(scaling());
  return std::holds_alternative<LongRope>(scaling()) || (factor != nullptr && *factor > 1);
}

bool Situation::of_llama3_or_lists() const {
  return std::holds_alternative<Llama3>(scaling()) || std::holds_alternative<LongRope>(scaling());
}

bool Situation::is_own_context() const {
  const double* factor = factor_of(scaling());
  const auto* length = scalings::value_of<std::int64_t>(scaling(), "trained_length");
  if (!is_scaled() || (length != nullptr && *length != trained)) return false;
  const std::int64_t reach = factor == nullptr ? 0 : reached(trained, *factor);
  const bool is_stated = stated_context() == request.context;
  // Llama 3.1 was trained on past trained_length * factor; of the others a factor that does not reach is a mistake.
  return reach == request.context || (is_stated && (reach > request.context || of_llama3_or_lists()));
}

Start start_of(const Request& request) {
  Situation situation = look_up(request);
  Start start{situation.targets.front()};
  try {
    set_trained_length(situation);
    start.trained_length = situation.trained;
    start.trained_length_from = situation.trained_from;
  } catch (const Error&) {  // nothing says it
  }
  if (situation.trained_from.starts_with("published by ")) start.publisher = situation.published->says.publisher;
  return start;
}

Situation situation_of(const Request& request) {
  Situation situation = look_up(request);
  check_model(situation);
  set_trained_length(situation);
  check_context(situation);
  warn_of_own_scaling(situation);
  return situation;
}

}  // namespace rotary::extend
