// Defaults per model_type, found by reading {"model_type": X}.
#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "config/stages.h"
#include "diffusers.h"

namespace rotary::files {
namespace {

// A model_type at the top of a file, and the path to one of its parts; empty: the top itself.
struct PartPath {
  std::string_view top;
  std::vector<const Child*> way;
  std::string type() const { return std::string(way.empty() ? top : way.back()->type); }
  std::string path() const {
    std::string path;
    for (const Child* child : way) path += (path.empty() ? "" : ".") + std::string(child->part);
    return path;
  }
};

void collect(const PartPath& path, std::vector<PartPath>& paths) {
  paths.push_back(path);
  if (!refusal(path.type()).empty()) return;
  for (const Child& child : children_of(path.type())) {
    PartPath below = path;
    below.way.push_back(&child);
    collect(below, paths);
  }
}

std::vector<PartPath> all_paths() {
  std::set<std::string_view> tops;
  for (const auto& types : {model_types(), types_with_children(), refused_types(), types_without_rope()})
    tops.insert(types.begin(), types.end());
  std::erase_if(tops, is_our_name);
  std::vector<PartPath> paths;
  for (const std::string_view top : tops) collect({top, {}}, paths);
  return paths;
}

// The keys without which no layer rotates by default.
const char* switch_of(Rule rule) {
  switch (rule) {
    case Rule::if_rotary:
      return R"({"position_embedding_type": "rotary"})";
    case Rule::if_attn_config_rope:
      return R"({"attn_config": {"rope": true}})";
    case Rule::unless_alibi_size:
      return R"({"hidden_size": 4096})";
    default:
      return "{}";
  }
}

// Whether the class defaults have the numbers of layers and heads, and the width.
bool has_sizes(const Family& family) {
  const Shape& shape = family.shape;
  return shape.layers != 0 && shape.heads != 0 && (shape.head_dim != 0 || shape.hidden != 0 || family.mla.rope != 0);
}

// The head_dim for configs whose class defaults have none.
constexpr int some_head_dim = 128;

void add_parents_defaults(Json& keys, const Child& child) {
  const auto add = [&keys](const char* key, auto value) {
    if (value != 0) keys[key] = value;
  };
  add("num_hidden_layers", child.shape.layers);
  add("num_attention_heads", child.shape.heads);
  add("num_key_value_heads", child.shape.kv_heads);
  add("hidden_size", child.shape.hidden);
  add("head_dim", child.shape.head_dim);
  add("rope_theta", child.base);
}

// A config with the model_type only, and sizes if its class defaults have none.
Json keys_of(std::string_view type) {
  Json keys = {{"model_type", std::string(type)}};
  const Family* family = find_family(type);
  if (family == nullptr || has_sizes(*family)) return keys;
  keys["num_hidden_layers"] = std::max<std::size_t>(family->pattern.types.size(), 1);
  keys["num_attention_heads"] = 1;
  keys["head_dim"] = some_head_dim;
  return keys;
}

// all_attend: for hybrids in which no layer has attention by default.
Json config_of(const PartPath& path, const Family& family, bool all_attend) {
  Json config = keys_of(path.top);
  Json* keys = &config;
  for (const Child* child : path.way) keys = &((*keys)[std::string(child->part)] = keys_of(child->type));
  keys->update(parse_json(switch_of(family.rule)));
  const Flag& flag = family.turns_where;
  if (!flag.key.empty()) (*keys)[std::string(flag.key)] = flag.on;
  if (!path.way.empty()) add_parents_defaults(*keys, *path.way.back());
  if (all_attend) (*keys)["layer_types"] = std::vector<std::string>(std::size_t(family.shape.layers), "full_attention");
  return config;
}

Model only_part(Model model, const std::string& part) {
  std::erase_if(model.parts, [&](const ModelPart& one) { return one.path != part; });
  std::erase_if(model.ropes, [&](const ModelRope& one) { return one.part != part; });
  return model;
}

// The ropes of one part, or why there are none.
void read_part(const Json& config, KnownModel& known) {
  ConfigOptions options;
  options.class_defaults = true;
  Reading reading = read_json(config, options);
  known.model = only_part(std::move(reading.model), known.part);
  if (!known.model.ropes.empty()) return;
  known.why = "no layer has a rope by default";
  for (const NoRope& none : reading.without) {
    if (none.part == known.part) known.why = none.why;
  }
}

KnownModel known_part(const PartPath& path, const Family& family) {
  KnownModel known{.model_type = std::string(path.top), .part = path.path()};
  try {
    read_part(config_of(path, family, false), known);
    if (known.model.ropes.empty() && has_sizes(family)) {
      read_part(config_of(path, family, true), known);
      for (ModelRope& used : known.model.ropes) used.layers.clear();
      for (ModelPart& whole : known.model.parts) whole.layers = 0;
    }
  } catch (const OddHead& odd) {
    known.why = "the class defaults do not run: " + std::string(odd.rule());
  }
  if (!known.model.ropes.empty()) known.why.clear();
  return known;
}

// The ropes of a class of diffusers, from its defaults; an entry for each part that has one of its own.
void add_class(std::string_view type, std::vector<KnownModel>& models) {
  const DiffusersRope& of_class = *find_diffusers(type);
  const Flag& flag = of_class.turns_where;
  Json config = {{"_class_name", std::string(type)}};
  if (!flag.key.empty()) config[std::string(flag.key)] = flag.on;
  const bool complete = of_class.longrope.empty();  // the factors have no default
  const Model model = complete ? read_json(config, {}).model : Model();
  for (const DiffusersRope* row : ropes_of_class(type)) {
    KnownModel known{.model_type = std::string(type), .part = part_of_class(*row)};
    known.model = only_part(model, known.part);
    if (known.model.ropes.empty()) known.why = std::string(row->longrope) + " has no class default";
    models.push_back(std::move(known));
  }
}

// Adds what add() finds by the defaults of a row, whose errors are then about the row; its frequencies must be numbers.
template <class Add>
void add_row(std::string_view row, std::vector<KnownModel>& models, const Add& add) {
  try {
    std::size_t i = models.size();
    for (add(); i < models.size(); ++i) {
      for (const ModelRope& used : models[i].model.ropes) frequencies(used.rope, 1 << 20);
    }
  } catch (const Error& error) {
    throw error.about(row);
  }
}

}  // namespace
}  // namespace rotary::files

namespace rotary {

std::vector<KnownModel> known_models() {
  const files::SheetOfReading reading;
  std::vector<KnownModel> models;
  for (const files::PartPath& path : files::all_paths()) {
    if (const files::Family* family = files::find_family(path.type())) {
      files::add_row(path.type(), models, [&] { models.push_back(files::known_part(path, *family)); });
      continue;
    }
    const bool rotary = !files::known_without_rope(path.type());
    const std::string why = rotary ? std::string(files::refusal(path.type())) : "its positions are not rotary";
    if (why.empty()) continue;  // it only contains other parts
    models.push_back({.model_type = std::string(path.top), .part = path.path(), .why = why, .rotary = rotary});
  }
  for (const std::string_view type : files::diffusers_types()) {
    if (type.find('/') == std::string_view::npos) files::add_row(type, models, [&] { files::add_class(type, models); });
  }
  const auto order = [](const KnownModel& a, const KnownModel& b) {
    return std::tie(a.model_type, a.part) < std::tie(b.model_type, b.part);
  };
  std::stable_sort(models.begin(), models.end(), order);
  return models;
}

}  // namespace rotary
