// model_positions: chooses the part and its way, and computes the ids of models that only count tokens.
#include <algorithm>

#include "ids.h"
#include "rotary/choice.h"

namespace rotary {
namespace made {

void take_only(const ModelInputs& inputs, std::string_view takes) {
  const struct {
    const char *word, *name;
    bool given;
  } kinds[] = {{"ids", "token ids", !inputs.ids.empty()},
               {"mask", "mask", !inputs.mask.empty()},
               {"images", "image grids", !inputs.image_grids.empty()},
               {"films", "video grids", !inputs.video_grids.empty()},
               {"seconds", "seconds per grid", !inputs.seconds_per_grid.empty()},
               {"sounds", "audio lengths", !inputs.audio_lengths.empty()},
               {"publisher", "way of its publisher", inputs.publisher}};
  for (const auto& kind : kinds) {
    if (kind.given && !files::is_listed(kind.word, takes))
      refuse(Code::POSITION, std::string("this model or part takes no ") + kind.name, "some");
  }
}

ModelPositions counted(files::Counts counts, const ModelInputs& inputs) {
  std::vector<std::int64_t> mask(static_cast<std::size_t>(inputs.batch * inputs.tokens), 1);
  if (!inputs.mask.empty() && counts != files::Counts::every) mask = inputs.mask;
  ModelPositions made;
  made.positions = {.integers = mask_positions(mask, inputs.tokens),
                    .batch = static_cast<int>(inputs.batch),
                    .batched = true,
                    .tokens = inputs.tokens};
  if (counts == files::Counts::from_one) {
    for (std::int64_t& position : made.positions.integers) ++position;  // masked tokens, at 0, become 1
  }
  return made;
}

void check_sizes(const ModelInputs& inputs) {
  if (inputs.batch < 1 || inputs.tokens < 0 || inputs.tokens > max_positions ||
      (inputs.tokens > 0 && inputs.batch > max_positions / inputs.tokens)) {
    refuse(Code::SHAPE, "there must be 1 to " + std::to_string(max_positions) + " tokens",
           by(inputs.batch, inputs.tokens));
  }
  for (const auto* values : {&inputs.ids, &inputs.mask}) {
    if (!values->empty() && values->size() != static_cast<std::size_t>(inputs.batch * inputs.tokens)) {
      refuse(Code::SHAPE, "ids and mask must be [batch, tokens], " + by(inputs.batch, inputs.tokens),
             std::to_string(values->size()) + " values");
    }
  }
  for (const std::int64_t length : inputs.audio_lengths) {
    if (length > INT32_MAX) refuse(Code::POSITION, "an audio length must fit 32 bits", length);
  }
  std::int64_t left = max_positions;
  for (const auto* grids : {&inputs.image_grids, &inputs.video_grids}) {
    for (const auto& [time, height, width] : *grids) {
      const std::string text = by(time, height, width);
      if (time < 1 || height < 1 || width < 1) refuse(Code::POSITION, "a grid must be at least 1 x 1 x 1", text);
      if (time > left || height > left / time || width > left / time / height) {
        refuse(Code::POSITION, "all grids must have at most " + std::to_string(max_positions) + " patches", text);
      }
      left -= time * height * width;
    }
  }
}

}  // namespace made

namespace {

using files::Object;
using files::PositionFacts;

// A config, or a part of one, and its model_type: "" if neither it nor its parent's class states one.
struct Place {
  Object config;
  std::string type;
};

std::string type_of(const Object& config) { return config.text("model_type").value_or(""); }

bool is_tower(const std::string& type) {
  const std::optional<PositionFacts> facts = files::find_positions(type);
  return facts && facts->order != files::PatchOrder::none;
}

// The type of a part: `own` is the type in the file, `told` that of the parent's class, which is used if the file has
// none. A published file may have the whole model's type in its tower, or a name that no class has.
std::string meant_type(const std::string& whole, const std::string& part, const std::string& own,
                       const std::string& told) {
  if (is_tower(own)) return own;
  if (part.starts_with("vis") && is_tower(own + "_vision")) return own + "_vision";
  return own.empty() || own == whole || (is_tower(told) && !files::known_without_rope(own)) ? told : own;
}

// The part of that name; if the file leaves it out, the class's default part.
Place part_of(const Place& whole, const std::string& name, files::Ledger& ledger) {
  static const files::Json empty = files::Json::object();
  const std::string told(files::child_type(whole.type, name));
  const std::optional<Object> own = name.empty() ? std::nullopt : whole.config.object(name);
  if (!own && told.empty()) {
    made::refuse(Code::MODEL_TYPE,
                 "the part must be a sub-config of " + (whole.type.empty() ? "the model" : whole.type),
                 files::in_quotes(name));
  }
  return {own ? *own : Object(empty, name, ledger), meant_type(whole.type, name, own ? type_of(*own) : "", told)};
}

// For a config that only contains other models, the place is the model for images, unless the path begins elsewhere.
Place place_of(const files::Json& json, std::string_view path, files::Ledger& ledger) {
  const Object root(json, "", ledger);
  Place place{root, type_of(root)};
  const std::string first(path.substr(0, path.find('.')));
  for (const char* holder : {"thinker_config", "vlm_config", "detector_config"}) {
    const bool inside =
        path.empty() ? std::string_view(holder) == "thinker_config" : first != holder && !root.has(first);
    if (inside && (root.has(holder) || !files::child_type(place.type, holder).empty()))
      place = part_of(place, holder, ledger);
  }
  for (const std::string_view name : files::words(path, '.')) place = part_of(place, std::string(name), ledger);
  for (auto facts = files::find_positions(place.type); facts && !facts->inside.empty();) {
    place = part_of(place, std::string(facts->inside), ledger);
    facts = files::find_positions(place.type);
  }
  return place;
}

ModelPositions positions_at(const Place& place, const ModelInputs& inputs, made::Merge merge) {
  const std::optional<PositionFacts> facts = files::find_positions(place.type);
  const auto refuse_type = [&] {
    made::refuse(Code::MODEL_TYPE,
                 "model_type must be one whose position ids are known (docs/models.md; packed, mask and image make "
                 "them by hand)",
                 place.type.empty() ? "none" : files::in_quotes(place.type));
  };
  if (!facts) refuse_type();
  const made::Call call{place.config, *facts, inputs, merge};
  if (facts->order != files::PatchOrder::none) return made::tower_positions(call);
  const made::Way variant = made::way_of(facts->variant);
  if (variant == nullptr && facts->counts != files::Counts::none) made::take_only(inputs, "ids mask");
  if (inputs.tokens < 1)
    made::refuse(Code::SHAPE, "the tokens must be given, by --tokens, --mask or --length,", "none");
  if (variant != nullptr) return variant(call);
  if (facts->counts == files::Counts::none) refuse_type();
  return made::counted(facts->counts, inputs);
}

}  // namespace

ModelPositions model_positions(const std::string& config, const ModelInputs& inputs) {
  return made::positions_with(config, inputs, made::Merge::as_asked);
}

ModelPositions made::positions_with(const std::string& config, const ModelInputs& inputs, Merge merge) {
  const std::string text = config.starts_with('{') ? config : config_text_at(config);
  if (text.empty()) made::refuse(Code::FORMAT, "the config must be a config.json", files::in_quotes(config));
  const files::Json json = files::parse_json(text);
  if (!json.is_object()) made::refuse(Code::JSON, "a config must be an object", files::shown(json));
  if (json.contains("_class_name")) {
    made::refuse(Code::MODEL_TYPE,
                 "the config must be of a model of transformers (the pipeline of a diffusion model makes its "
                 "coordinates: save these, [axes, tokens], as an .npy and give that file as the positions)",
                 files::shown(json.at("_class_name")));
  }
  check_sizes(inputs);
  files::Ledger ledger;
  return positions_at(place_of(json, inputs.part, ledger), inputs, merge);
}

}  // namespace rotary
