#include "situation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "files/text/io.h"
#include "steps.h"
#include "values/fail.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::extend {
namespace {

using detail::spelled;
using files::Json;
using files::JsonPath;

[[noreturn]] void refuse(Code code, const std::string& sentence) { fail(code, "extend", sentence); }

std::string in_part(const ModelRope& used) { return used.part.empty() ? "" : " of " + used.part; }

void refuse_what_no_scaling_changes(const ModelRope& used, std::size_t index) {
  const std::string which = "rope " + std::to_string(index) + in_part(used);
  if (used.coordinates) {
    refuse(Code::ROPE, "a rope to extend must turn by the places of tokens in a text but " + which +
                           " turns by coordinates, as of an image's patches");
  }
  if (!used.rope.inv_freq.empty() || !used.rope.multiplier.empty() || !used.log_multiplier.empty()) {
    refuse(Code::ROPE, "a rope to extend must compute its frequencies from a base but " + which +
                           " learned them: no scaling of a config changes them");
  }
}

// Rope 0 is that of the language model; towers come after it.
std::size_t chosen(const Request& request) {
  const std::vector<ModelRope>& ropes = request.model.ropes;
  if (ropes.empty()) {
    std::string why;
    for (const std::string& note : request.model.notes) why += (why.empty() ? "" : " ") + note;
    refuse(Code::ROPE, "a model to extend must have a rope but has none: " + why);
  }
  if (request.rope && *request.rope >= ropes.size()) {
    refuse(Code::ROPE, "--rope must be below the model's number of ropes, " + std::to_string(ropes.size()) +
                           ", and counts from 0 but got " + std::to_string(*request.rope));
  }
  if (request.rope) return *request.rope;
  for (std::size_t i = 0; i < ropes.size(); ++i) {
    if (!ropes[i].coordinates) return i;
  }
  return 0;
}

double largest_base(const std::vector<ModelRope>& ropes, const std::string& part) {
  double base = 0;
  for (const ModelRope& used : ropes) {
    if (used.part == part) base = std::max(base, used.rope.base);
  }
  return base;
}

// The ropes of the part whose layers attend to everything; all of them where every rope is a sliding layer's.
void choose_targets(Situation& situation) {
  const std::vector<ModelRope>& ropes = situation.request.model.ropes;
  const std::size_t first = chosen(situation.request);
  const std::string& part = ropes[first].part;
  situation.part = files::json_path(part);
  const auto count = [&](auto is) {
    return std::count_if(ropes.begin(), ropes.end(),
                         [&](const ModelRope& used) { return used.part == part && is(used); });
  };
  const auto of_part = count([](const ModelRope&) { return true; });
  const bool all_slide = count(only_slides) == of_part;
  const bool typed = count([](const ModelRope& used) { return !used.layer_types.empty(); }) == of_part;
  for (std::size_t i = 0; i < ropes.size(); ++i) {
    bool full = all_slide || !only_slides(ropes[i]);
    // A GGUF or params.json file has no layer types: there the sliding layers have the smaller base.
    if (!typed) full = situation.editable() || ropes[i].rope.base == largest_base(ropes, part);
    (ropes[i].part == part && full ? situation.targets : situation.left).push_back(i);
  }
}

// Throws where no scaling can change the ropes, or none needs a change.
void check_targets(const Situation& situation) {
  const auto targets = situation.targets;
  for (const std::size_t i : targets) refuse_what_no_scaling_changes(situation.rope(i), i);
  const bool all_slide =
      std::all_of(targets.begin(), targets.end(), [&](std::size_t i) { return only_slides(situation.rope(i)); });
  if (!all_slide || situation.is_scaled() || situation.published != nullptr) return;
  const Json* window = situation.value("sliding_window");
  refuse(Code::ROPE,
         "a rope to extend must be one of layers that attend to the whole text but only the sliding layers" +
             in_part(situation.first()) + " have one" +
             (window != nullptr && window->is_number() ? ", with a window of " + window->dump() : "") +
             ": no two of their tokens are further apart than in training, and the model takes longer texts "
             "without a scaling");
}

// A key with a dot or a control character in its name is no path.
void check_part(const Situation& situation) {
  if (!situation.editable() || situation.object() != nullptr) return;
  refuse(Code::ROPE, "a config to change must hold an object at the place of its rope but " +
                         files::in_quotes(situation.first().part) + " is none");
}

// Throws for families whose code reads neither a scaling nor a base.
void check_family(const Situation& situation) {
  const files::Family* family = situation.family;
  if (family == nullptr || family->reads_scaling || !family->base_key.empty()) return;
  refuse(Code::ROPE, "a model to extend must read a scaling or a base from its config but the code of " +
                         std::string(family->type) + " reads neither: its frequencies are fixed");
}

void check_context(const Situation& situation) {
  const std::int64_t context = situation.request.context;
  if (context > longest_text) {
    refuse(Code::VALUE, "--context must be at most 2^53 but got " + std::to_string(context));
  }
  if (context > situation.trained) return;
  const Published* known = situation.published;
  std::string hint;
  if (known != nullptr && known->trained_length < situation.trained && context > known->trained_length) {
    hint = "; where the length of the config was raised without training, as some files of " +
           std::string(known->models) + " have it, --trained-length " + std::to_string(known->trained_length) +
           " plans from the length that " + std::string(known->publisher) + " publishes";
  }
  refuse(Code::VALUE, "--context must be above the trained length " + std::to_string(situation.trained) + " (" +
                          situation.trained_from + ") but got " + std::to_string(context) +
                          ": the model takes such texts as it is" + hint);
}

}  // namespace

bool slides(const std::string& layer_type) {
  return layer_type == "sliding_attention" || layer_type == "hybrid_sliding" || layer_type == "main";
}

bool only_slides(const ModelRope& used) {
  return !used.layer_types.empty() && std::all_of(used.layer_types.begin(), used.layer_types.end(), slides);
}

std::int64_t reached(std::int64_t trained, double factor) {
  constexpr double most = 9e15;
  return static_cast<std::int64_t>(std::min(static_cast<double>(trained) * factor + 0.5, most));
}

const Json* Situation::object() const { return files::object_at(root, part); }

const Json* Situation::value(const std::string& key) const {
  const Json* keys = object();
  return keys != nullptr && keys->contains(key) ? &keys->at(key) : nullptr;
}

JsonPath Situation::path(const std::string& key) const {
  JsonPath path = part;
  path.push_back(key);
  return path;
}

bool Situation::of_layer_types() const {
  const Json* parameters = value("rope_parameters");
  if (parameters != nullptr && parameters->is_object()) {
    const auto& items = parameters->items();
    if (std::any_of(items.begin(), items.end(), [](const auto& item) { return item.value().is_object(); })) return true;
  }
  return family != nullptr && family->old != files::Old::one_for_all && family->old != files::Old::all_to_all;
}

bool Situation::splits(const ModelRope& used) const {
  return of_layer_types() && !only_slides(used) &&
         std::any_of(used.layer_types.begin(), used.layer_types.end(), slides);
}

double Situation::smallest_factor() const {
  const auto length = static_cast<double>(trained);
  const auto wanted = static_cast<double>(request.context);
  double factor = wanted / length;
  while (factor * length < wanted) factor = std::nextafter(factor, 2 * factor);
  return factor;
}

bool Situation::is_scaled() const {
  const Scaling& scaling = first().rope.scaling;
  if (std::holds_alternative<Ntk>(scaling)) return false;  // the base of the training in other words
  const auto* factor = scalings::value_of<double>(scaling, "factor");
  const bool lists = std::holds_alternative<LongRope>(scaling);
  return lists || (factor != nullptr && *factor > 1);
}

bool Situation::of_llama3_or_lists() const {
  const Scaling& scaling = first().rope.scaling;
  return std::holds_alternative<Llama3>(scaling) || std::holds_alternative<LongRope>(scaling);
}

bool Situation::is_own_context() const {
  const auto* factor = scalings::value_of<double>(first().rope.scaling, "factor");
  const auto* length = scalings::value_of<std::int64_t>(first().rope.scaling, "trained_length");
  if (!is_scaled() || (length != nullptr && *length != trained)) return false;
  const std::int64_t reach = factor == nullptr ? 0 : reached(trained, *factor);
  const bool is_stated = first().context == request.context;
  // Llama 3.1 was trained on past trained_length * factor; of the others a factor that does not reach is a mistake.
  return reach == request.context || (is_stated && (reach > request.context || of_llama3_or_lists()));
}

bool Situation::is_published_context() const {
  if (published == nullptr || published->trained_length != trained) return false;
  const Scaling& scaling = published->scaling;
  const auto* factor = scalings::value_of<double>(scaling, "factor");
  return published->is_made_for(request.context) ||
         (factor != nullptr && is_just_below(request.context, reached(trained, *factor)));
}

bool Situation::is_published_exactly() const {
  return published != nullptr && published->trained_length == trained &&
         (request.context == published->context || request.context == published->also);
}

std::int64_t Situation::taken_by_the_file() const {
  const Scaling& scaling = first().rope.scaling;
  if (!is_scaled() || std::holds_alternative<Dynamic>(scaling)) return 0;
  const auto* factor = scalings::value_of<double>(scaling, "factor");
  if (first().context > trained || factor == nullptr) return first().context;
  return reached(trained, *factor);
}

namespace {

// The ropes, and what is known of their family and makers.
Situation look_up(const Request& request) {
  Situation situation{request};
  if (situation.editable()) situation.root = files::parse_json(request.config);
  choose_targets(situation);
  const ModelRope& used = situation.first();
  situation.family = files::find_family(used.model_type);
  // A GGUF file or params.json says the model's type alone.
  const std::string& type = used.model_type.empty() ? request.model.model_type : used.model_type;
  situation.published = published_for(used, type, files::string_of(situation.root, "_name_or_path"), request.context);
  return situation;
}

}  // namespace

Start start_of(const Request& request) {
  const Situation situation = look_up(request);
  Start start{situation.targets.front()};
  const Published* known = situation.published;
  const bool raised = known != nullptr && !situation.is_scaled() && known->states_more(situation.first().context);
  if (raised || is_published_linear(situation)) {
    start.published_length = known->trained_length;
    start.publisher = known->publisher;
  }
  return start;
}

Situation situation_of(const Request& request) {
  Situation situation = look_up(request);
  check_part(situation);
  check_targets(situation);
  check_family(situation);
  set_trained_length(situation);
  check_context(situation);
  const ModelRope& first = situation.first();
  if (const auto* ntk = std::get_if<Ntk>(&first.rope.scaling)) {
    situation.warnings.push_back("the model was trained with a static NTK base (alpha " + spelled(ntk->factor) +
                                 "): the plan keeps it, as rope_theta " +
                                 detail::significant(unscaled(first.rope).base, 10) + ", and extends that rope");
  }
  if (situation.is_scaled()) {
    const Scaling& scaling = first.rope.scaling;
    const auto* factor = scalings::value_of<double>(scaling, "factor");
    situation.warnings.push_back(std::string("the model is scaled already (") + name(scaling) +
                                 (factor == nullptr ? "" : ", factor " + detail::significant(*factor, 6)) +
                                 "): the plan starts from the unscaled rope and " + std::to_string(situation.trained) +
                                 " tokens");
    const std::int64_t taken = situation.taken_by_the_file();
    if (request.context < taken && !situation.is_own_context()) {
      situation.warnings.push_back("the file takes " + std::to_string(taken) +
                                   " tokens as it is: weights that were trained with its scaling need no other for " +
                                   std::to_string(request.context));
    }
  }
  return situation;
}

}  // namespace rotary::extend
