#include "gguf.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "rotary/error.h"
#include "values/fail.h"
#include "values/names.h"

namespace rotary::files {
namespace {

constexpr int max_blocks = 16384;
constexpr int every_fourth = 4;

// The heads of one layer, and whether its attention has a sliding window.
struct GgufLayer {
  int heads = 0;
  int kv_heads = 0;
  bool window = false;
  bool has_rope = true;
  bool operator==(const GgufLayer&) const = default;
};

class GgufReader {
 public:
  explicit GgufReader(const GgufPart& part) : part_(part), keys_(part.keys), arch_(part.arch) {}

  void read() {
    if (arch_.rope_type == GgufRopeType::none || !is_switched_on()) {
      for (const char* key : known_keys) keys_.mark(key);
      return part_.note(NoteKind::no_rope, "architecture ", in_quotes(part_.name()),
                        " has no rotary positions that llama.cpp knows of");
    }
    read_layers();
    ModelPart& whole = part_.add_to_model(static_cast<int>(layers_.size()));
    whole.context = keys_.integer("context_length", 0, max_length).value_or(0);
    whole.model_type.clear();
    context_ = whole.context;
    for (const GgufLayer& layer : kinds()) add_rope(layer);
    const std::vector<int> without = layers_without_rope(part_.reading.model, part_.path);
    read_query_scale(part_, {}, Unscaled{}, layers_.size(), without);
  }

 private:
  static constexpr const char* known_keys[] = {"rope.dimension_count",    "rope.dimension_count_swa",
                                               "rope.dimension_sections", "rope.freq_base",
                                               "rope.freq_base_swa",      "rope.scaling.type",
                                               "rope.scaling.factor",     "rope.scaling.original_context_length",
                                               "rope.scaling.finetuned",  "rope.scaling.attn_factor"};

  // Granite: rope.scaling.finetuned says whether the model has a rope.
  bool is_switched_on() const {
    const bool on = keys_.boolean("rope.scaling.finetuned", true);
    return arch_.quirk != GgufQuirk::permuted_switch || on;
  }

  std::optional<int> whole(const char* key, int least, int most) const {
    return read_whole(part_, {nullptr, key, most, least});
  }

  // One number for all layers, or a list with one per layer.
  std::vector<int> per_layer(const char* key, int layers) {
    const Json* value = keys_.value(key);
    if (value == nullptr || !value->is_array()) {
      return std::vector<int>(static_cast<std::size_t>(layers), needed(part_, key, max_dim));
    }
    std::vector<int> list = *keys_.integers(key);
    const bool fits = std::all_of(list.begin(), list.end(), [](int n) { return n >= 0 && n <= max_dim; });
    if (list.size() != static_cast<std::size_t>(layers) || !fits) {
      keys_.refuse(key, "must have one number from 0 to 65536 per layer, ", layers, " of them,");
    }
    return list;
  }

  void read_layers() {
    const int count = needed(part_, "block_count", max_blocks);
    const std::vector<int> heads = per_layer("attention.head_count", count);
    std::vector<int> kv_heads = heads;
    if (keys_.has("attention.head_count_kv")) {
      kv_heads = per_layer("attention.head_count_kv", count);
    } else {
      part_.note(NoteKind::derived, "attention.head_count_kv is not given: as many as head_count");
    }
    const std::vector<bool> windows = window_layers(count);
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      GgufLayer layer{heads[at], kv_heads[at], windows[at], true};
      layer.has_rope = layer.heads > 0 && layer.kv_heads > 0 && rotates(i, layer.window);
      layers_.push_back(layer);
    }
    note_gaps();
  }

  bool has_window() const { return keys_.number("attention.sliding_window").value_or(0) > 0; }

  // Which layers have a sliding window; all false if that does not matter to the rope.
  std::vector<bool> window_layers(int count) {
    std::vector<bool> windows(static_cast<std::size_t>(count), false);
    const bool matters = arch_.quirk == GgufQuirk::window_only || arch_.quirk == GgufQuirk::window_plain ||
                         arch_.quirk == GgufQuirk::window_after || keys_.has("rope.freq_base_swa") ||
                         keys_.has("rope.dimension_count_swa");
    if (!matters) return windows;
    constexpr const char* pattern = "attention.sliding_window_pattern";
    int period = arch_.period;
    if (const Json* value = keys_.value(pattern); value != nullptr && value->is_array()) {
      const bool fits = value->size() == windows.size() && std::all_of(value->begin(), value->end(), [](const Json& v) {
                          return v.is_boolean() || v.is_number_integer();
                        });
      if (!fits) keys_.refuse(pattern, "must have one true or false per layer");
      for (std::size_t i = 0; i < windows.size(); ++i) {
        windows[i] = (*value)[i].is_boolean() ? (*value)[i].get<bool>() : (*value)[i] != 0;
      }
      return windows;
    }
    if (const auto given = whole("attention.sliding_window_pattern", 1, max_blocks)) {
      period = *given;
    } else if (!has_window() && !keys_.has("rope.freq_base_swa")) {
      return windows;  // OLMo 2, EXAONE 4 of 1.2B: no window at all
    } else if (period == 0) {
      fail(Code::ROPE, "read_config", "the layers with a sliding window have a rope of their own in architecture ",
           in_quotes(part_.name()), " and must be named by ", in_quotes(keys_.path_of(pattern)), " but it is absent");
    } else {
      part_.note(NoteKind::model_default,
                 "attention.sliding_window_pattern is not given: all layers have a window but every one in ", period,
                 ", as llama.cpp has it for ", part_.name());
    }
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const int place = static_cast<int>(i) % period;
      windows[i] = arch_.quirk == GgufQuirk::window_after ? place > 0 : place < period - 1;
    }
    return windows;
  }

  bool rotates(int layer, bool window) {
    switch (arch_.quirk) {
      case GgufQuirk::permuted_gaps:
        return (layer + 1) % every_fourth != 0;
      case GgufQuirk::gaps:
        return (layer + 1) % every_fourth != 0 || (keys_.has("attention.sliding_window") && !has_window());
      case GgufQuirk::gaps_first:
        return layer % every_fourth != 0 || !has_window();
      case GgufQuirk::window_only:
        return window || !has_window();
      case GgufQuirk::hybrid:
        return (layer + 1) % whole("full_attention_interval", 1, max_blocks).value_or(every_fourth) == 0;
      default:
        return true;
    }
  }

  void note_gaps() {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (layers_[i].has_rope) continue;
      part_.note(NoteKind::layers,
                 layers_[i].heads > 0 && layers_[i].kv_heads > 0
                     ? "the layers without rope are those that llama.cpp leaves without in " + part_.name()
                     : "layers of 0 heads have no rope");
    }
  }

  // The different kinds of layers with a rope, that of layer 0 first.
  std::vector<GgufLayer> kinds() const {
    std::vector<GgufLayer> found;
    for (const GgufLayer& layer : layers_) {
      if (layer.has_rope && std::find(found.begin(), found.end(), layer) == found.end()) found.push_back(layer);
    }
    return found;
  }

  void add_rope(const GgufLayer& layer) {
    ModelRope used;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (layers_[i] == layer) used.layers.push_back(static_cast<int>(i));
    }
    used.heads = layer.heads;
    used.kv_heads = layer.kv_heads;
    part_.origins() = {};
    record_layers();
    if (context_ > 0) part_.record("context", "context_length");
    set_shape(layer, used);
    set_base(layer, used.rope);
    set_pairing(used.rope);
    if (used.rope.axes() == 3) used.axis_names = {"time", "height", "width"};
    set_gguf_scaling(part_, used, context_, layer.window && arch_.quirk == GgufQuirk::window_plain);
    used.origins = part_.origins().of_rope();
    part_.reading.model.ropes.push_back(std::move(used));
  }

  // The layers with a rope follow from the pattern of the window, or from the architecture if it leaves some out.
  void record_layers() {
    const bool all = std::all_of(layers_.begin(), layers_.end(), [&](const GgufLayer& l) { return l == layers_[0]; });
    part_.record("layers", "block_count");
    if (!all) part_.record_or_default("layers", "attention.sliding_window_pattern");
    part_.record("heads", "attention.head_count");
    part_.record("kv_heads", word_for(part_, "attention.head_count_kv attention.head_count"));
  }

  void set_shape(const GgufLayer& layer, ModelRope& used) {
    Rope& rope = used.rope;
    const auto mla = whole("attention.key_length_mla", 2, max_dim);
    const auto full = whole("attention.key_length", 2, max_dim);
    const auto swa = whole("attention.key_length_swa", 2, max_dim);
    if (mla && used.kv_heads == 1) {
      used.kv_heads = used.heads;
      part_.derived("kv_heads", "attention.head_count");
      part_.note(NoteKind::read_as,
                 "the k heads are as many as the q heads: the GGUF stores the rotated part of k once, for all of them");
    }
    auto length = mla ? mla : layer.window && swa ? swa : full;
    part_.record("head_dim", mla                   ? "attention.key_length_mla"
                             : layer.window && swa ? "attention.key_length_swa"
                                                   : "attention.key_length");
    if (!length) {
      part_.derived("head_dim", "embedding_length / attention.head_count");
      const int width = needed(part_, "embedding_length", 1 << 24);
      if (width % layer.heads != 0) keys_.refuse("embedding_length", "must be a multiple of head_count");
      length = width / layer.heads;
      part_.note(NoteKind::derived, "attention.key_length is not given: embedding_length / head_count = ", *length);
    }
    rope.head_dim = *length;
    const auto rotating = whole("rope.dimension_count", 2, max_dim);
    const auto rotating_swa = whole("rope.dimension_count_swa", 2, max_dim);
    if (!rotating) part_.note(NoteKind::model_default, "rope.dimension_count is not given: the whole head turns");
    const std::string which = layer.window && rotating_swa ? "rope.dimension_count_swa" : "rope.dimension_count";
    rope.rotary_dim = layer.window && rotating_swa ? *rotating_swa : rotating.value_or(rope.head_dim);
    part_.derived("rotary_dim", "head_dim");
    if (keys_.has(which)) part_.record("rotary_dim", which);
    if (rope.rotary_dim % 2 != 0 || rope.rotary_dim > rope.head_dim) {
      const std::string rule = "must be even and at most the head's " + std::to_string(rope.head_dim);
      if (keys_.has(which)) keys_.refuse(which, rule);
      fail(Code::CONFIG_VALUE, "read_config", "the elements that turn ", rule, " but are ", rope.rotary_dim);
    }
    if (arch_.quirk == GgufQuirk::mla) {
      used.first = rope.head_dim - rope.rotary_dim;
      if (used.first != 0) part_.derived("first", "head_dim - rotary_dim");
      part_.note(NoteKind::model, "the rotated block is the last of the head: multi-head latent attention");
    }
  }

  void set_base(const GgufLayer& layer, Rope& rope) {
    const auto full = keys_.number("rope.freq_base");
    const auto window = keys_.number("rope.freq_base_swa");
    const bool own = layer.window && window;
    const char* key = own ? "rope.freq_base_swa" : "rope.freq_base";
    part_.record_or_default("base", key);
    if (!full) part_.note(NoteKind::model_default, "rope.freq_base is not given: 10000");
    rope.base = own ? *window : full.value_or(10000);
    if (layer.window && !window && arch_.window_10000) {
      rope.base = 10000;
      part_.by_default("base");
      part_.note(NoteKind::model_default, "rope.freq_base_swa is not given: 10000 on the layers with a sliding window");
    }
    if (!(rope.base > 1)) keys_.refuse(key, "must be above 1");
  }

  void set_pairing(Rope& rope) {
    auto sections = keys_.integers("rope.dimension_sections");
    if (sections && std::all_of(sections->begin(), sections->end(), [](int n) { return n == 0; })) sections.reset();
    GgufRopeType type = arch_.rope_type;
    if (type == GgufRopeType::norm_mrope) type = sections ? GgufRopeType::mrope : GgufRopeType::norm;
    if (type == GgufRopeType::neox_mrope) type = sections ? GgufRopeType::mrope : GgufRopeType::neox;
    rope.pairing = type == GgufRopeType::norm ? Pairing::interleaved : Pairing::half;
    part_.by_default("pairing");
    if (type == GgufRopeType::mrope || type == GgufRopeType::imrope) {
      set_axes(rope, sections, type == GgufRopeType::imrope);
    } else if (sections) {
      keys_.refuse("rope.dimension_sections", "must be absent in an architecture whose pairs have one axis");
    }
    const std::string name = part_.name();
    const auto given = part_.reading.options.pairing;
    if (given && *given != rope.pairing && find_architecture(name) != nullptr) {
      part_.note(NoteKind::chosen, "pairing ", detail::familiar(*given), " is given; architecture ", name, " has ",
                 detail::familiar(rope.pairing));
    }
    const bool permuted = arch_.quirk == GgufQuirk::permuted || arch_.quirk == GgufQuirk::permuted_switch ||
                          arch_.quirk == GgufQuirk::permuted_gaps;
    if (!given) {
      part_.note(NoteKind::model, "pairing ", detail::familiar(rope.pairing), ", as llama.cpp turns architecture ",
                 name,
                 (permuted ? ": conversion to GGUF reorders the rows of q and k, and what Hugging Face's weights turn "
                             "as half turns as interleaved here"
                           : ""));
    }
    rope.pairing = given_pairing(part_, rope.pairing, "");
  }

  // The counts of pairs per axis: time, height, width and a fourth; unused ones are 0 at the end.
  void set_axes(Rope& rope, const std::optional<std::vector<int>>& given, bool interleaved) {
    constexpr const char* key = "rope.dimension_sections";
    if (!given) missing_key(part_, key, "architecture " + part_.name());
    std::vector<int> sections = *given;
    std::int64_t sum = 0;
    for (const int section : sections) sum += section < 0 ? max_dim : section;
    while (!sections.empty() && sections.back() == 0) sections.pop_back();
    if (given->size() > 4 || sections.size() < (interleaved ? 3U : 1U) || (interleaved && sections.size() > 3) ||
        sum != rope.rotary_dim / 2) {
      keys_.refuse(key, "must be ", (interleaved ? "3 counts" : "1 to 4 counts"), " of pairs that sum to ",
                   rope.rotary_dim / 2);
    }
    part_.record("axis", key);
    rope.axis = interleaved ? interleaved_axes(sections) : sectioned_axes(sections);
    part_.note(
        NoteKind::axes,
        interleaved
            ? "the pairs take time, height and width in turn, and what is left over time, as the model was trained; "
              "llama.cpp gives pairs left over a fourth position"
            : "the pairs take time, height and width in runs of rope.dimension_sections");
  }

  const GgufPart& part_;
  const Object& keys_;
  const GgufArchitecture& arch_;
  std::vector<GgufLayer> layers_;
  std::int64_t context_ = 0;
};

// Whether a part of the key begins with rope or yarn, or names rotary positions.
bool is_about_rope(const std::string& key) {
  if (key.starts_with("general.") || key.starts_with("tokenizer.")) return false;
  return key.starts_with("rope") || key.find(".rope") != std::string::npos || key.find("_rope") != std::string::npos ||
         key.find("yarn") != std::string::npos || key.find("rotary") != std::string::npos;
}

void refuse_unread(const Object& all, const Part& part) {
  const std::string prefix = part.name() + ".";
  for (const auto& item : all.json().items()) {
    const bool own = item.key().starts_with(prefix);
    const bool read = own && part.reading.ledger.was_read(part.keys.json(), item.key().substr(prefix.size()));
    if (read || !is_about_rope(item.key())) continue;
    fail(Code::CONFIG_KEY, "read_config", "a key about the rope must be one that is known but got ",
         in_quotes(item.key()), " = ", shown(item.value()));
  }
}

std::string name_of_architecture(const Object& all) {
  if (const auto given = all.text("general.architecture")) return *given;
  fail(Code::CONFIG_MISSING, "read_config",
       "a GGUF must have general.architecture but has not (of a file in several parts, the first has it)");
}

GgufArchitecture architecture_of(Reading& reading, const std::string& name) {
  if (const GgufArchitecture* known = find_architecture(name)) return *known;
  if (!reading.options.pairing) {
    fail(Code::MODEL_TYPE, "read_config", "the architecture must be one that is known but got ", in_quotes(name),
         ", and no pairing is given", with_advice("", reading.options.words.give_pairing));
  }
  reading.note(
      NoteKind::chosen, "",
      "architecture " + in_quotes(name) + " is not known: the pairing given decides, and the generic keys are read");
  return {};
}

// The metadata whose keys begin with the architecture's name, under the rest of their keys.
Json own_metadata(const Json& all, const std::string& name) {
  Json own = Json::object();
  for (const auto& item : all.items()) {
    if (item.key().starts_with(name + ".")) own[item.key().substr(name.size() + 1)] = item.value();
  }
  return own;
}

}  // namespace

int needed(const Part& part, const char* key, int most) {
  const auto value = read_whole(part, {nullptr, key, most});
  if (!value) missing_key(part, key, "a GGUF");
  return *value;
}

void missing_key(const Part& part, const char* key, const std::string& subject) {
  fail(Code::CONFIG_MISSING, "read_config", subject, " must have ", in_quotes(part.keys.path_of(key)), " but has not");
}

Model read_gguf(const InputFile& file, const ConfigOptions& options) {
  const Gguf gguf(file);
  Reading reading{options};
  const Object all(gguf.metadata(), "", reading.ledger);
  const std::string name = reading.model.model_type = name_of_architecture(all);
  const GgufArchitecture arch = architecture_of(reading, name);
  const Json own = own_metadata(all.json(), name);
  const Family family{.type = name};
  const GgufPart part{{reading, "", Object(own, name, reading.ledger), family}, gguf, arch};
  GgufReader(part).read();
  refuse_unread(all, part);
  return std::move(reading.model);
}

}  // namespace rotary::files
