// The parameters of one rope from every spelling: rope_theta + rope_scaling, rope_parameters flat or per layer type,
// class defaults.
#include <algorithm>
#include <cmath>
#include <functional>

#include "rotary/error.h"
#include "stages.h"
#include "text/io.h"
#include "text/nearest.h"
#include "values/fail.h"
#include "values/scaling_fields.h"

namespace rotary::files {
namespace {

std::optional<double> base_at(const Object& keys, std::string_view key) {
  const Json* found = keys.peek(key);
  if (found == nullptr || found->is_array()) return std::nullopt;  // a list: config/layers.cpp
  const auto base = keys.number(key);
  if (base && (!(*base > 1) || !std::isfinite(*base))) {
    keys.refuse(key, "must be above 1 (at 1 every pair turns alike, below it the later pairs turn faster)");
  }
  return base;
}

// "attn_config.rope_theta" reads one level down.
std::optional<double> base_below(const Object& keys, std::string_view path) {
  const auto dot = path.find('.');
  if (dot == std::string_view::npos) return base_at(keys, path);
  const std::string outer(path.substr(0, dot));
  const auto inner = keys.has(outer) ? keys.object(outer) : std::nullopt;
  return inner ? base_at(*inner, path.substr(dot + 1)) : std::nullopt;
}

// The object at that path, "attn_config.rope_hf_config"; an empty one, null and false say nothing.
std::optional<Object> filled(const Object& keys, std::string_view path) {
  const auto dot = path.find('.');
  const std::string key(path.substr(0, dot));
  const Json* const value = dot == path.npos ? keys.value(key) : keys.peek(key);
  if (value == nullptr || value->is_null() || *value == false) return std::nullopt;
  const auto object = keys.object(key);
  if (dot != path.npos) return filled(*object, path.substr(dot + 1));
  return object->json().empty() ? std::nullopt : object;
}

// Whether the old spelling means different things to different layer types.
bool typed(Old old) { return old != Old::one_for_all && old != Old::all_to_all; }

// A key of a rope_parameters that is keyed by layer type.
bool is_label(const std::string& key) {
  return key.ends_with("_attention") || key.starts_with("hybrid") || key == "main" || key == "compress";
}

bool is_known_label(std::string_view key) {
  return is_listed(key,
                   "full_attention sliding_attention chunked_attention linear_attention hybrid hybrid_sliding main "
                   "compress compressed_sparse_attention heavily_compressed_attention indexed_attention "
                   "deepseek_sparse_attention");
}

// Other spellings of the words of the scalings.
struct Word {
  std::string_view spelling, type;
};
constexpr Word scaling_words[] = {{"su", "longrope"},         {"mrope", "default"},      {"xdrope", "dynamic"},
                                  {"ntk_fixed", "ntk_fixed"}, {"ntkmixed", "ntk_fixed"},  // BlueLM
                                  {"no_scaling", "default"},                              // MPT
                                  {"origin", "default"},                                  // InternLM
                                  {"video_rope", "default"}};                             // Ming

std::vector<std::string_view> known_types() {
  std::vector<std::string_view> types;
  scalings::for_each_scaling([&](const auto& scaling) { types.emplace_back(scalings::rope_type_of(scaling)); });
  types.emplace_back("axial");
  for (const scalings::YarnKind& kind : scalings::yarn_kinds) types.emplace_back(kind.rope_type);
  return types;
}

[[noreturn]] void refuse_type(const Object& keys, const char* key, const std::string& type_word) {
  const std::vector<std::string_view> known = known_types();
  fail(Code::CONFIG_VALUE, "read_config", keys.path_of(key), " must be one of ", listed(known), " but got ",
       in_quotes(type_word), suggestion(type_word, known));
}

// The names that generic files (of a model_type that is not known) use.
constexpr Names generic_base_keys = "rope_theta rotary_emb_base rotary_base rope_base";

// The name of the scaling for any spelling of rope_type, or axial, deepseek_yarn, telechat3-yarn. Throws CONFIG_VALUE
// for an unknown one.
std::string scaling_type(const Part& part, const Object& keys) {
  const auto modern = keys.text("rope_type");
  const auto legacy = keys.text("type");
  const char* key = modern ? "rope_type" : "type";
  const std::string type_word = modern.value_or(legacy.value_or("default"));
  part.origins().read_or_by_default("scaling", keys, key, part.name());
  if (modern && legacy && *modern != *legacy) {
    part.note(NoteKind::unread, "rope_type ", *modern, " beats type ", *legacy, " in ", keys.path());
  }
  std::string type = published_type(type_word);
  if (type_word == "yarn" && part.family.yarn_is_longrope) type = "longrope";
  if (type_word == "yarn_linear" && part.family.quirk->scaling != nullptr) type = "yarn";  // Grok
  if (type.empty()) refuse_type(keys, key, type_word);
  if (type != type_word) {
    part.note(NoteKind::read_as, "rope_type ", type_word, " is read as ", type,
              (type_word == "ntk" ? ", as vLLM means it; bloc97's NTK-aware scaling is ntk_aware" : ""));
  }
  return type;
}

class RopeSource {
 public:
  RopeSource(const Part& part, const std::vector<Layer>& layers) : part_(part) {
    for (const Layer& layer : layers) {
      if (!layer.type.empty() && std::find(labels_.begin(), labels_.end(), layer.type) == labels_.end()) {
        labels_.push_back(layer.type);
      }
    }
    const Object& keys = part.keys;
    if (!part.family.sliding_base_key.empty()) base_at(keys, part.family.sliding_base_key);
    if (part.family.reads_scaling) {
      dict_ = filled(keys, "rope_parameters");
      scaling_ = filled(keys, "rope_scaling");
    }
    const std::string_view scaling_key = part.family.scaling_key;
    if (!scaling_ && !scaling_key.empty()) scaling_ = filled(keys, scaling_key);
    if (!part.family.rope_parameters.empty()) {
      part.reading.defaults.push_back(parse_json(part.family.rope_parameters));
      defaults_ = Object(part.reading.defaults.back(), "the default rope_parameters of " + part.name(),
                         part.reading.ledger, part.name());
      drop_defaults_beside_empty();
    }
    const bool compresses = part.family.old == Old::scaling_to_compress;
    if (scaling_ && dict_ && (compresses || !typed(part.family.old))) {
      part.note(NoteKind::unread,
                "rope_scaling and rope_parameters are both given: rope_scaling decides, as in transformers");
      ignore_known(keys, "rope_parameters");
      dict_.reset();
    }
    if (scaling_ && typed(part.family.old) && !compresses && !scaling_->has("rope_type")) drop_untyped_scaling();
    if (scaling_ && !typed(part.family.old)) dict_ = std::exchange(scaling_, std::nullopt);
    nested_ = dict_ && is_nested(*dict_);
    if (dict_ && nested_) read_around_nested();
    if (dict_ && !nested_ && compresses) {
      part.note(NoteKind::read_as,
                "rope_parameters is not keyed by layer type: read as rope_scaling, as in transformers");
      scaling_ = std::exchange(dict_, std::nullopt);
    }
    if (dict_ && !nested_ && typed(part.family.old)) {
      part.note(NoteKind::unread, "rope_parameters is not keyed by layer type: transformers ignores it for ",
                part.name());
      ignore_known(keys, "rope_parameters");
      dict_.reset();
    }
    if (!nested_ || typed(part.family.old)) pass_over_types_without_layers(layers);
  }

  std::optional<RopeKeys> of(const Layer& layer) const {
    if (typed(part_.family.old)) {
      if (scaling_ && is_bent(layer.type)) return read(scaling_, layer);
      const bool entry = nested_ && dict_->has(layer.type);
      return read(entry ? dict_->object(layer.type) : std::nullopt, layer);
    }
    if (dict_ && !nested_) return read(dict_, layer);
    if (dict_ && nested_) return entry_of(*dict_, layer);
    if (!defaults_) return read(std::nullopt, layer);
    part_.note(NoteKind::model_default, "no rope_parameters or rope_scaling are given: the default of ", part_.name(),
               ", ", part_.family.rope_parameters);
    return is_nested(*defaults_) ? entry_of(*defaults_, layer) : read(defaults_, layer);
  }

 private:
  // transformers takes the class default where rope_parameters is null or not there: {} is an unscaled rope.
  void drop_defaults_beside_empty() {
    const Json* found = part_.keys.peek("rope_parameters");
    if (found == nullptr || *found != Json::object() || scaling_ || is_nested(*defaults_)) return;
    part_.note(NoteKind::scaling, "rope_parameters is {}: unscaled, not the default of ", part_.name());
    defaults_.reset();
  }

  // The keys of layer types that no layer has.
  void pass_over_types_without_layers(const std::vector<Layer>& layers) {
    const Family& family = part_.family;
    const auto none = [&](auto is_of_type) {
      return std::none_of(layers.begin(), layers.end(),
                          [&](const Layer& layer) { return layer.turns && is_of_type(layer.type); });
    };
    const auto slides = [](const std::string& type) { return has_sliding_rope(type); };
    const auto note = [&](std::string_view key) {
      part_.note(NoteKind::unread, key, " is not read: no layer has the type that it is for");
    };
    if (none([](const std::string&) { return true; })) return;
    if (scaling_ && !nested_ && none([&](const std::string& type) { return is_bent(type); })) {
      for (const char* key : {"rope_scaling", "rope_parameters"}) ignore_known(part_.keys, key);
      note("rope_scaling");
      scaling_.reset();
    }
    const bool one_key = std::ranges::count(family.base_key, family.sliding_base_key) != 0;  // NeoMME
    if ((dict_ && !nested_) || family.sliding_base == 0 || one_key) return;
    if (none(slides) && part_.keys.has(std::string(family.sliding_base_key))) note(family.sliding_base_key);
    if (!none(std::not_fn(slides))) return;
    for (const std::string_view key : family.base_key) {
      if (base_below(part_.keys, key)) note(key);
    }
  }

  // gemma3 and its kin start from {"rope_type": "default"} and add rope_scaling: an old "type" loses against it.
  void drop_untyped_scaling() {
    part_.note(NoteKind::unread, "rope_scaling has type but no rope_type: transformers leaves ", part_.name(),
               " unscaled then; write rope_type for the scaling");
    ignore_known(part_.keys, "rope_scaling");
    scaling_.reset();
  }

  bool is_nested(const Object& dict) const {
    for (const auto& item : dict.json().items()) {
      const bool label = std::find(labels_.begin(), labels_.end(), item.key()) != labels_.end() || is_label(item.key());
      if (label && (item.value().is_object() || item.value().is_null())) return true;
    }
    return false;
  }

  // Keys beside the layer types: transformers reads truncate there, and drops rope_type and rope_theta.
  void read_around_nested() {
    truncate_ = dict_->boolean("truncate");
    if (dict_->is_null("truncate")) truncate_ = false;  // as transformers reads it
    if (truncate_) truncate_from_ = from_key(*dict_, "truncate");
    for (const char* key :
         {"rope_theta", "rope_type", "type", "partial_rotary_factor", "original_max_position_embeddings"}) {
      if (!dict_->has(key)) continue;
      dict_->mark(key);
      part_.note(NoteKind::unread, dict_->path_of(key), " stands beside the layer types and is not read");
    }
    for (const auto& item : dict_->json().items()) {
      const bool used = std::find(labels_.begin(), labels_.end(), item.key()) != labels_.end();
      if (used || !is_known_label(item.key())) continue;
      ignore_known(*dict_, item.key());
      part_.note(NoteKind::unread, dict_->path_of(item.key()), " is not read: no layer has that type");
    }
  }

  double top_base(bool sliding) const {
    const Family& family = part_.family;
    const Object& keys = part_.keys;
    const auto given = [&](std::string_view key) {
      const auto base = base_below(keys, key);
      if (base) part_.record("base", key);
      return base;
    };
    if (!part_.known) {
      for (const std::string_view key : words(generic_base_keys)) {
        if (const auto base = given(key)) return *base;
      }
      // Moshi's base; elsewhere max_period is not a rope's.
      if (const auto base = states_rope_positions(keys) ? given("max_period") : std::nullopt) return *base;
      part_.note(NoteKind::warning, "no base (rope_theta) is given: 10000 is taken, the usual one, which need not be ",
                 "this model's");
      part_.by_default("base");
      return family.base;
    } else if (const auto mlc = given("position_embedding_base")) {
      return *mlc;
    } else if (sliding && family.sliding_base != 0) {
      const auto base = family.sliding_base_key.empty() ? std::nullopt : given(family.sliding_base_key);
      if (!base) take_base(family.sliding_base, "the sliding layers' default of", family.sliding_base_key);
      return base.value_or(family.sliding_base);
    } else if (family.quirk->base != nullptr) {
      return family.quirk->base(part_);
    } else if (!family.base_key.empty()) {
      for (const std::string_view key : family.base_key) {
        if (const auto base = given(key)) {
          pass_over_deeper(key, *base);
          return *base;
        }
      }
    }
    if (family.base_key.empty()) {
      take_base(family.base, "fixed in", "rope_theta");
    } else {
      take_base(family.base, "the default of", family.base_key.front());
    }
    return family.base;
  }

  // Notes a base one level down (attn_config.rope_theta) that differs: the base at the top decides.
  void pass_over_deeper(std::string_view winner, double base) const {
    for (const std::string_view key : part_.family.base_key) {
      const auto other = key != winner && key.find('.') != key.npos ? base_below(part_.keys, key) : std::nullopt;
      if (other && *other != base) {
        part_.note(NoteKind::unread, key, " is not read: ", winner, " decides");
      }
    }
  }

  void take_base(double base, const char* whose, std::string_view key) const {
    part_.note(NoteKind::model_default, "no base (", key, ") is given: ", spelled(base), ", ", whose, " ",
               part_.name());
    part_.by_default("base");
  }

  // The rope that one object describes; without one, the unscaled rope.
  RopeKeys read(const std::optional<Object>& keys, const Layer& layer) const {
    RopeKeys rope;
    // transformers nests those old spellings too
    rope.truncate_elsewhere = keys && (nested_ || part_.family.old != Old::one_for_all);
    rope.truncate = truncate_;
    rope.truncate_from = truncate_from_;
    part_.by_default("scaling");
    if (keys) {
      rope.scaling = keys;
      rope.type = scaling_type(part_, *keys);
      rope.partial = inner_number(*keys, "partial_rotary_factor");
      if (rope.partial) rope.partial_from = from_key(*keys, "partial_rotary_factor");
    } else if (const auto own = part_.family.quirk->scaling) {
      rope.scaling = own(part_);
      if (rope.scaling) rope.type = scaling_type(part_, *rope.scaling);
    }
    const auto inner = keys && inner_number(*keys, "rope_theta") ? base_at(*keys, "rope_theta") : std::nullopt;
    if (layer.base) {
      if (!(*layer.base > 1)) {
        fail(Code::CONFIG_VALUE, "read_config", "every base in a list must be above 1 but got ", spelled(*layer.base));
      }
      rope.base = *layer.base;
      drop_outer_base(layer);
    } else if (inner) {
      rope.base = *inner;
      part_.origins().read("base", *keys, "rope_theta");
      drop_outer_base(layer);
    } else {
      rope.base = top_base(has_sliding_base(layer, keys.has_value()));
    }
    if (const auto own = part_.family.quirk->partial; own != nullptr && !rope.partial) rope.partial = own(layer);
    if (layer.partial) {
      rope.partial = layer.partial;
      rope.partial_from = layer.partial_from;
    }
    if (!layer.scaled) {
      rope.type = "default";
      rope.scaling.reset();
    }
    return rope;
  }

  // A number of the object, where the class does not write its own over it.
  std::optional<double> inner_number(const Object& keys, const char* key) const {
    const auto value = keys.number(key);
    if (!value || nested_ || part_.family.old != Old::scaling_to_compress) return value;
    part_.note(NoteKind::unread, keys.path_of(key), " is not read: transformers writes that of ", part_.name(),
               " over it");
    return std::nullopt;
  }

  bool has_sliding_base(const Layer& layer, bool has_keys) const {
    const Family& family = part_.family;
    if (!has_sliding_rope(layer.type) || !has_keys || family.old != Old::all_to_all)
      return has_sliding_rope(layer.type);
    if (part_.keys.has(std::string(family.sliding_base_key))) {
      part_.note(NoteKind::unread, family.sliding_base_key, " is not read beside rope_scaling or ",
                 "rope_parameters, as in transformers: rope_theta is the base of every layer type");
    }
    return false;
  }

  // A base inside the object beats the ones outside.
  void drop_outer_base(const Layer& layer) const {
    const Family& family = part_.family;
    const Object& keys = part_.keys;
    std::vector<std::string_view> outside = family.base_key;
    if (!family.sliding_base_key.empty()) outside.push_back(family.sliding_base_key);
    for (const std::string_view key : outside) {
      const auto outer = base_below(keys, key);
      const bool is_of_layer =
          (key == family.sliding_base_key) == (family.sliding_base != 0 && has_sliding_rope(layer.type));
      if (outer && (is_of_layer || !typed(family.old))) {
        const Json* inner = dict_ ? dict_->peek("rope_theta") : nullptr;
        const bool differs = inner != nullptr && inner->is_number() && inner->get<double>() != *outer;
        part_.note(NoteKind::unread, key, " at the top is not read: the one inside rope_parameters decides",
                   (differs ? ", which is " + spelled(inner->get<double>()) + " and not " + spelled(*outer) : ""));
      }
    }
  }

  // Whether rope_scaling bends the layers of that type, of the families where it does not bend all.
  bool is_bent(const std::string& type) const {
    if (const auto own = part_.family.quirk->is_scaled) {
      if (const auto scaled = own(part_, type)) return *scaled;
    }
    return !has_sliding_rope(type) || part_.family.old == Old::scaling_to_both;
  }

  std::optional<RopeKeys> entry_of(const Object& dict, const Layer& layer) const {
    if (dict.is_null(layer.type)) {
      dict.mark(layer.type);
      part_.note(NoteKind::layers, dict.path_of(layer.type), " is null: those layers have no rope");
      return std::nullopt;
    }
    const auto entry = dict.object(layer.type);
    const bool has_defaults = part_.family.old == Old::one_for_all && part_.family.sliding_base != 0;  // NeoMME
    if (!entry && has_defaults) return read(std::nullopt, layer);
    if (!entry) {
      fail(Code::CONFIG_MISSING, "read_config", dict.path(),
           " must have an entry for every layer type but has none for ",
           layer.type.empty() ? "layers without a type" : layer.type);
    }
    return read(entry, layer);
  }

  const Part& part_;
  std::vector<std::string> labels_;
  std::optional<Object> dict_;      // rope_parameters, or rope_scaling in its place
  std::optional<Object> scaling_;   // rope_scaling, where it bends some layer types only
  std::optional<Object> defaults_;  // the class default
  bool nested_ = false;             // dict_ is keyed by layer type
  std::optional<bool> truncate_;    // beside the layer types
  Origin truncate_from_ = {};
};

}  // namespace

std::string published_type(std::string_view type_word) {
  for (const Word& word : scaling_words) {
    if (type_word == word.spelling) return std::string(word.type);
  }
  std::string type = type_word == "axial" ? "axial" : "";
  for (const scalings::YarnKind& kind : scalings::yarn_kinds) {
    if (type_word == kind.rope_type) type = type_word;
  }
  scalings::for_each_scaling([&](const auto& scaling) {
    if (type_word == scalings::rope_type_of(scaling)) type = scalings::name_of(scaling);
  });
  return type;
}

RopeOfLayer rope_source(const Part& part, const std::vector<Layer>& layers) {
  return [source = RopeSource(part, layers)](const Layer& layer) { return source.of(layer); };
}

}  // namespace rotary::files
