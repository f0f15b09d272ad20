#include "model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "files/config/caller_words.h"
#include "files/config/stages.h"
#include "rotary/error.h"
#include "values/fail.h"

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

class GgufReader : GgufKeys {
 public:
  using GgufKeys::GgufKeys;

  Model read() {
    find_name();
    if (arch.rope_type == GgufRopeType::none || !is_switched_on()) {
      for (const char* key : known_keys) keys.mark(own(key));
      note("architecture " + in_quotes(name) + " has no rotary positions that llama.cpp knows of");
    } else {
      read_layers();
      for (const GgufLayer& layer : kinds()) add_rope(layer);
    }
    refuse_unread();
    return std::move(reading.model);
  }

 private:
  static constexpr const char* known_keys[] = {"rope.dimension_count",    "rope.dimension_count_swa",
                                               "rope.dimension_sections", "rope.freq_base",
                                               "rope.freq_base_swa",      "rope.scaling.type",
                                               "rope.scaling.factor",     "rope.scaling.original_context_length",
                                               "rope.scaling.finetuned",  "rope.scaling.attn_factor"};

  void find_name() {
    const auto given = keys.text("general.architecture");
    if (!given) {
      fail(Code::CONFIG_MISSING, "read_config",
           "a GGUF must have general.architecture but has not (of a file in several parts, the "
           "first has it)");
    }
    name = *given;
    reading.model.model_type = name;
    if (const GgufArchitecture* known = find_architecture(name)) {
      arch = *known;
    } else if (!reading.options.pairing) {
      fail(Code::MODEL_TYPE, "read_config",
           "the architecture must be one that is known but got " + in_quotes(name) + ", and no pairing is given");
    } else {
      arch = {name, GgufRopeType::neox};
      note("architecture " + in_quotes(name) +
           " is not known: the pairing given decides, and the generic keys are read");
    }
  }

  // Granite: rope.scaling.finetuned says whether the model has a rope.
  bool is_switched_on() {
    const bool on = keys.boolean(own("rope.scaling.finetuned"), true);
    return arch.quirk != GgufQuirk::permuted_switch || on;
  }

  // One number for all layers, or a list with one per layer.
  std::vector<int> per_layer(const std::string& key, int layers) {
    const std::string path = own(key);
    const Json* value = keys.value(path);
    if (value == nullptr || !value->is_array())
      return std::vector<int>(static_cast<std::size_t>(layers), needed(key, max_dim));
    std::vector<int> list = *keys.integers(path);
    const bool fits = std::all_of(list.begin(), list.end(), [](int n) { return n >= 0 && n <= max_dim; });
    if (list.size() != static_cast<std::size_t>(layers) || !fits) {
      keys.refuse(path, "must have one number from 0 to 65536 per layer, " + std::to_string(layers) + " of them,");
    }
    return list;
  }

  void read_layers() {
    const int count = needed("block_count", max_blocks);
    const std::vector<int> heads = per_layer("attention.head_count", count);
    std::vector<int> kv_heads = heads;
    if (has("attention.head_count_kv")) {
      kv_heads = per_layer("attention.head_count_kv", count);
    } else {
      note("attention.head_count_kv is not given: as many as head_count");
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

  bool has_window() const { return number("attention.sliding_window").value_or(0) > 0; }

  // Which layers have a sliding window; all false if that does not matter to the rope.
  std::vector<bool> window_layers(int count) {
    std::vector<bool> windows(static_cast<std::size_t>(count), false);
    const bool matters = arch.quirk == GgufQuirk::window_only || arch.quirk == GgufQuirk::window_plain ||
                         arch.quirk == GgufQuirk::window_after || has("rope.freq_base_swa") ||
                         has("rope.dimension_count_swa");
    if (!matters) return windows;
    const std::string pattern = own("attention.sliding_window_pattern");
    int period = arch.period;
    if (const Json* value = keys.value(pattern); value != nullptr && value->is_array()) {
      const bool fits = value->size() == windows.size() && std::all_of(value->begin(), value->end(), [](const Json& v) {
                          return v.is_boolean() || v.is_number_integer();
                        });
      if (!fits) keys.refuse(pattern, "must have one true or false per layer");
      for (std::size_t i = 0; i < windows.size(); ++i) {
        windows[i] = (*value)[i].is_boolean() ? (*value)[i].get<bool>() : (*value)[i] != 0;
      }
      return windows;
    }
    if (const auto given = whole("attention.sliding_window_pattern", 1, max_blocks)) {
      period = *given;
    } else if (!has_window() && !has("rope.freq_base_swa")) {
      return windows;  // OLMo 2, EXAONE 4 of 1.2B: no window at all
    } else if (period == 0) {
      fail(Code::ROPE, "read_config",
           "the layers with a sliding window have a rope of their own in architecture " + in_quotes(name) +
               " and must be named by " + in_quotes(pattern) + " but it is absent");
    } else {
      note("attention.sliding_window_pattern is not given: all layers have a window but every one in " +
           std::to_string(period) + ", as llama.cpp has it for " + name);
    }
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const int place = static_cast<int>(i) % period;
      windows[i] = arch.quirk == GgufQuirk::window_after ? place > 0 : place < period - 1;
    }
    return windows;
  }

  bool rotates(int layer, bool window) {
    switch (arch.quirk) {
      case GgufQuirk::permuted_gaps:
        return (layer + 1) % every_fourth != 0;
      case GgufQuirk::gaps:
        return (layer + 1) % every_fourth != 0 || (has("attention.sliding_window") && !has_window());
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
      note(layers_[i].heads > 0 && layers_[i].kv_heads > 0
               ? "the layers without rope are those that llama.cpp leaves without in " + name
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
      if (!layers_[i].has_rope) used.layers_without_rope.push_back(static_cast<int>(i));
    }
    used.heads = layer.heads;
    used.kv_heads = layer.kv_heads;
    used.context = keys.integer(own("context_length"), 0, max_length).value_or(0);
    reading.origins = {};
    record_layers();
    if (used.context > 0) record("context", "context_length");
    set_shape(layer, used);
    set_base(layer, used.rope);
    set_pairing(used.rope);
    if (Frequencies{.axis = used.rope.axis}.axes() == 3) used.axis_names = {"time", "height", "width"};
    set_gguf_scaling(*this, used, layer.window && arch.quirk == GgufQuirk::window_plain);
    used.origins = reading.origins.of_rope();
    reading.model.ropes.push_back(std::move(used));
  }

  // The layers with a rope follow from the pattern of the window, or from the architecture if it leaves some out.
  void record_layers() {
    const bool all = std::all_of(layers_.begin(), layers_.end(), [&](const GgufLayer& l) { return l == layers_[0]; });
    record("layers", "block_count");
    if (!all) record_or_by_default("layers", "attention.sliding_window_pattern");
    record("heads", "attention.head_count");
    record("kv_heads", has("attention.head_count_kv") ? "attention.head_count_kv" : "attention.head_count");
  }

  void set_shape(const GgufLayer& layer, ModelRope& used) {
    Rope& rope = used.rope;
    auto length = whole("attention.key_length_mla", 2, max_dim);
    if (length && used.kv_heads == 1) {
      used.kv_heads = used.heads;
      reading.origins.derived("kv_heads", "attention.head_count");
      note("the k heads are as many as the q heads: the GGUF stores the rotated part of k once, for all of them");
    }
    const auto full = whole("attention.key_length", 2, max_dim);
    const auto swa = whole("attention.key_length_swa", 2, max_dim);
    record("head_dim", length                ? "attention.key_length_mla"
                       : layer.window && swa ? "attention.key_length_swa"
                                             : "attention.key_length");
    if (!length) length = layer.window && swa ? swa : full;
    if (!length) {
      reading.origins.derived("head_dim", "embedding_length / attention.head_count");
      const int width = needed("embedding_length", 1 << 24);
      if (width % layer.heads != 0) keys.refuse(own("embedding_length"), "must be a multiple of head_count");
      length = width / layer.heads;
      note("attention.key_length is not given: embedding_length / head_count = " + std::to_string(*length));
    }
    rope.head_dim = *length;
    const auto rotating = whole("rope.dimension_count", 2, max_dim);
    const auto rotating_swa = whole("rope.dimension_count_swa", 2, max_dim);
    if (!rotating) note("rope.dimension_count is not given: the whole head turns");
    const std::string which = layer.window && rotating_swa ? "rope.dimension_count_swa" : "rope.dimension_count";
    rope.rotary_dim = layer.window && rotating_swa ? *rotating_swa : rotating.value_or(rope.head_dim);
    reading.origins.derived("rotary_dim", "head_dim");
    if (has(which)) record("rotary_dim", which);
    if (rope.rotary_dim % 2 != 0 || rope.rotary_dim > rope.head_dim) {
      const std::string rule = "must be even and at most the head's " + std::to_string(rope.head_dim);
      if (keys.has(own(which))) keys.refuse(own(which), rule);
      fail(Code::CONFIG_VALUE, "read_config",
           "the elements that turn " + rule + " but are " + std::to_string(rope.rotary_dim));
    }
    if (arch.quirk == GgufQuirk::mla) {
      used.first = rope.head_dim - rope.rotary_dim;
      if (used.first != 0) reading.origins.derived("first", "head_dim - rotary_dim");
      note("the rotated block is the last of the head: multi-head latent attention");
    }
  }

  void set_base(const GgufLayer& layer, Rope& rope) {
    const auto full = number("rope.freq_base");
    const auto window = number("rope.freq_base_swa");
    std::string key = "rope.freq_base";
    rope.base = full.value_or(10000);
    record_or_by_default("base", key);
    if (!full) note("rope.freq_base is not given: 10000");
    if (layer.window && window) {
      rope.base = *window;
      key = "rope.freq_base_swa";
      record("base", key);
    } else if (layer.window && arch.window_10000) {
      rope.base = 10000;
      reading.origins.by_default("base", name);
      note("rope.freq_base_swa is not given: 10000 on the layers with a sliding window");
    }
    if (!(rope.base > 1)) keys.refuse(own(key), "must be above 1");
  }

  void set_pairing(Rope& rope) {
    auto sections = keys.integers(own("rope.dimension_sections"));
    if (sections && std::all_of(sections->begin(), sections->end(), [](int n) { return n == 0; })) sections.reset();
    GgufRopeType type = arch.rope_type;
    if (type == GgufRopeType::norm_mrope) type = sections ? GgufRopeType::mrope : GgufRopeType::norm;
    if (type == GgufRopeType::neox_mrope) type = sections ? GgufRopeType::mrope : GgufRopeType::neox;
    rope.pairing = type == GgufRopeType::norm ? Pairing::interleaved : Pairing::half;
    reading.origins.by_default("pairing", name);
    if (type == GgufRopeType::mrope || type == GgufRopeType::imrope) {
      set_axes(rope, sections, type == GgufRopeType::imrope);
    } else if (sections) {
      keys.refuse(own("rope.dimension_sections"), "must be absent in an architecture whose pairs have one axis");
    }
    const auto given = reading.options.pairing;
    if (given && *given != rope.pairing && find_architecture(name) != nullptr) {
      note(std::string("pairing ") + rotary::name(*given) + " is given; architecture " + name + " has " +
           rotary::name(rope.pairing));
    }
    if (given) {
      rope.pairing = *given;
      reading.origins.given("pairing", std::string(caller_words::pairing));
      return;
    }
    const bool permuted = arch.quirk == GgufQuirk::permuted || arch.quirk == GgufQuirk::permuted_switch ||
                          arch.quirk == GgufQuirk::permuted_gaps;
    note(std::string("pairing ") + rotary::name(rope.pairing) + ", as llama.cpp turns architecture " + name +
         (permuted ? ": conversion to GGUF reorders the rows of q and k, and what Hugging Face's weights turn as half "
                     "turns as interleaved here"
                   : ""));
  }

  // The counts of pairs per axis: time, height, width and a fourth; unused ones are 0 at the end.
  void set_axes(Rope& rope, const std::optional<std::vector<int>>& given, bool interleaved) {
    const std::string key = own("rope.dimension_sections");
    if (!given) missing("rope.dimension_sections", "architecture " + name);
    std::vector<int> sections = *given;
    std::int64_t sum = 0;
    for (const int section : sections) sum += section < 0 ? max_dim : section;
    while (!sections.empty() && sections.back() == 0) sections.pop_back();
    if (given->size() > 4 || sections.size() < (interleaved ? 3U : 1U) || (interleaved && sections.size() > 3) ||
        sum != rope.rotary_dim / 2) {
      keys.refuse(key, std::string("must be ") + (interleaved ? "3 counts" : "1 to 4 counts") +
                           " of pairs that sum to " + std::to_string(rope.rotary_dim / 2));
    }
    record("axis", "rope.dimension_sections");
    rope.axis = interleaved ? interleaved_axes(sections) : sectioned_axes(sections);
    note(interleaved
             ? "the pairs take time, height and width in turn, and what is left over time, as the model was trained; "
               "llama.cpp gives pairs left over a fourth position"
             : "the pairs take time, height and width in runs of rope.dimension_sections");
  }

  // Whether a part of the key begins with rope or yarn, or names rotary positions.
  static bool is_about_rope(const std::string& key) {
    if (key.starts_with("general.") || key.starts_with("tokenizer.")) return false;
    return key.starts_with("rope") || key.find(".rope") != std::string::npos ||
           key.find("_rope") != std::string::npos || key.find("yarn") != std::string::npos ||
           key.find("rotary") != std::string::npos;
  }

  void refuse_unread() const {
    for (const auto& item : keys.json().items()) {
      if (is_about_rope(item.key()) && !reading.ledger.was_read(keys.json(), item.key())) {
        fail(Code::CONFIG_KEY, "read_config",
             "a key about the rope must be one that is known but got " + in_quotes(item.key()) + " = " +
                 shown(item.value()));
      }
    }
  }

  std::vector<GgufLayer> layers_;
};

}  // namespace

std::optional<int> GgufKeys::whole(const std::string& key, int min, int max) const {
  const auto value = keys.integer(own(key), min, max);
  return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
}

int GgufKeys::needed(const std::string& key, int max) const {
  const auto value = whole(key, 1, max);
  if (!value) missing(key, "a GGUF");
  return *value;
}

void GgufKeys::missing(const std::string& key, const std::string& subject) const {
  fail(Code::CONFIG_MISSING, "read_config", subject + " must have " + in_quotes(own(key)) + " but has not");
}

Model read_gguf(const InputFile& file, const ConfigOptions& options) {
  const Gguf gguf(file);
  return GgufReader(gguf, options).read();
}

}  // namespace rotary::files
