// The ropes of a GGUF file: the metadata under the architecture's name, read as a part of a config.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "config/stages.h"
#include "gguf.h"
#include "rotary/error.h"
#include "values/fail.h"
#include "values/names.h"

namespace rotary::files {
namespace {

constexpr int max_blocks = 16384;
constexpr int max_dim = 65536;
constexpr int every_fourth = 4;

// path_of(key) is the key as spelled in the file.
struct GgufPart : Part {
  const Gguf& gguf;
  GgufArchitecture arch = {};
  bool compresses() const { return arch.quirk == GgufQuirk::compressed; }
  // Says how to get a tensor that may be in another part; "" if the file is whole.
  std::string if_split() const {
    const bool split = gguf.metadata().value("split.count", Json(0)) > 1;
    return split ? ", unless another part of the file has it: llama-gguf-split --merge makes one file of the parts"
                 : "";
  }
};

[[noreturn]] void missing_key(const Part& part, const char* key, const std::string& subject) {
  fail(Code::CONFIG_MISSING, "read_config", subject, " must have ", in_quotes(part.keys.path_of(key)), " but has not");
}

int needed(const Part& part, const char* key, int most) {
  const auto value = read_whole(part, {nullptr, key, most});
  if (!value) missing_key(part, key, "a GGUF");
  return *value;
}

// ---- the scaling of a rope ----

// Needs the rope's shape and base.
class GgufScaling {
 public:
  GgufScaling(const GgufPart& part, ModelRope& used, std::int64_t context)
      : part_(part), keys_(part.keys), used_(used), rope_(used.rope), context_(context) {}

  void set(bool plain) {
    part_.by_default("scaling");
    read();
    part_.derived("attention_factor", "1 for default");
    if (plain) {
      const bool scaled = factor_ != 1 || part_.gguf.find("rope_freqs.weight") != nullptr;
      if (scaled)
        part_.note(NoteKind::scaling, "the layers ",
                   part_.compresses() ? "that compress no keys" : "with a sliding window", " have no scaling");
    } else if (part_.gguf.find("rope_factors_long.weight") != nullptr ||
               part_.gguf.find("rope_factors_short.weight") != nullptr) {
      set_long();
    } else if (type_ == "longrope") {
      fail(Code::TENSOR, "read_config",
           "scaling longrope needs the tensors rope_factors_long.weight and "
           "rope_factors_short.weight but the file has none",
           part_.if_split());
    } else {
      set_factors(part_.gguf.find("rope_freqs.weight") != nullptr);
    }
  }

 private:
  Origins& origins() const { return part_.origins(); }

  void record_scaling() {
    part_.record_or_default("scaling", "rope.scaling.type");
    const bool list = std::holds_alternative<LongRope>(rope_.scaling);
    part_.derived("attention_factor",
                  list ? "1: no rope.scaling.attn_factor" : std::string("1 for ") + name(rope_.scaling));
    if (keys_.has("rope.scaling.attn_factor")) part_.record("attention_factor", "rope.scaling.attn_factor");
  }

  std::string factor_key() const { return word_for(part_, "rope.scaling.factor rope.scale_linear"); }
  void record_factor() { part_.record_or_default("scaling.factor", factor_key()); }

  void record_trained_length() {
    part_.record_or_default("scaling.trained_length",
                            word_for(part_, "rope.scaling.original_context_length context_length"));
  }

  // Records the origins of a scaling whose factors are tensors, or stand for tensors.
  void record_lists(const Origin& short_factor, const Origin& long_factor) {
    record_scaling();
    record_trained_length();
    origins().set("scaling", long_factor);
    origins().set("scaling.factor", {OriginKind::method_default, "longrope"});  // which the attention's replaces
    origins().set("scaling.short_factor", short_factor);
    origins().set("scaling.long_factor", long_factor);
  }

  std::vector<double> factors(const std::string& tensor) const {
    std::vector<double> values = part_.gguf.numbers(tensor, max_dim);
    const auto pairs = static_cast<std::size_t>(rope_.rotary_dim / 2);
    if (values.size() < pairs) {
      fail(Code::TENSOR, "read_config", "tensor ", tensor, " must have a factor for each of ", pairs, " pairs but has ",
           values.size());
    }
    if (values.size() > pairs)
      part_.note(NoteKind::unread, tensor, " has ", values.size(), " factors: the first ", pairs, " are used");
    values.resize(pairs);
    for (const double value : values) {
      if (!(value > 0) || !std::isfinite(value))
        fail(Code::TENSOR, "read_config", "the factors of tensor ", tensor, " must be finite and above 0 but one is ",
             spelled(value));
    }
    return values;
  }

  void read() {
    constexpr const char* type = "rope.scaling.type";
    const auto given = keys_.text(type);
    type_ = given.value_or("linear");
    if (type_ != "none" && type_ != "linear" && type_ != "yarn" && type_ != "longrope")
      keys_.refuse(type, "must be none, linear, yarn or longrope");
    const auto factor = keys_.number(factor_key());
    if (factor && *factor != 0 && !(*factor >= 1)) keys_.refuse(factor_key(), "must be at least 1, or 0 for none,");
    if (factor && !given && *factor > 1)
      part_.note(NoteKind::read_as, "rope.scaling.type is not given: linear, as llama.cpp reads it");
    factor_ = type_ == "none" || factor.value_or(0) == 0 ? 1 : *factor;
    // The graph of DeepSeek-V4 takes no factor from the file.
    attention_ = part_.compresses() ? 1 : keys_.number("rope.scaling.attn_factor").value_or(1);
    if (!(attention_ > 0)) keys_.refuse("rope.scaling.attn_factor", "must be above 0");
    trained_ = keys_.integer("rope.scaling.original_context_length", 1, max_length).value_or(0);
    if (trained_ == 0 && context_ > 0 && (type_ == "yarn" || type_ == "longrope")) {
      trained_ = context_;
      part_.note(NoteKind::derived, "rope.scaling.original_context_length is not given: context_length");
    }
  }

  void set_long() {
    if (type_ == "yarn") refuse("scaling yarn with rope_factors_long.weight");
    if (trained_ == 0)
      missing_key(part_, "rope.scaling.original_context_length", "a GGUF with rope_factors_long.weight");
    LongRope scaling;
    scaling.long_factor = factors("rope_factors_long.weight");
    scaling.short_factor = factors("rope_factors_short.weight");
    for (double& f : scaling.long_factor) f *= factor_;
    for (double& f : scaling.short_factor) f *= factor_;
    scaling.trained_length = trained_;
    scaling.attention_factor = attention_;
    if (!keys_.has("rope.scaling.attn_factor"))
      part_.note(NoteKind::model_default, "rope.scaling.attn_factor is not given: 1");
    rope_.scaling = scaling;
    record_lists({OriginKind::weights, "rope_factors_short.weight"}, {OriginKind::weights, "rope_factors_long.weight"});
  }

  void set_factors(bool has_tensor) {
    std::vector<double> divisors(static_cast<std::size_t>(rope_.rotary_dim / 2), 1.0);
    if (has_tensor) divisors = factors("rope_freqs.weight");
    const bool uneven = std::any_of(divisors.begin(), divisors.end(), [](double d) { return d != 1; });
    if (type_ == "yarn") {
      set_yarn();
      if (uneven) divide_by(divisors);
    } else if (set_ntk(uneven) || set_proportional(divisors)) {
      return;
    } else if (uneven || attention_ != 1) {
      // A list of factors is LongRoPE with the same list at every length.
      for (double& d : divisors) d *= factor_;
      LongRope scaling{divisors, divisors, trained_ > 0 ? trained_ : std::max<std::int64_t>(context_, 1)};
      scaling.attention_factor = attention_;
      rope_.scaling = std::move(scaling);
      const Origin from =
          has_tensor ? Origin{OriginKind::weights, "rope_freqs.weight"} : from_key(keys_, "rope.scaling.attn_factor");
      record_lists(from, from);
      if (uneven)
        part_.note(
            NoteKind::scaling,
            "inv_freq is divided by rope_freqs.weight: written as longrope with the same factors at every length");
    } else if (factor_ > 1) {
      rope_.scaling = Linear{factor_};
      record_scaling();
      record_factor();
    }
  }

  // ggml divides before it blends; both act on each pair by itself, so the order does not matter.
  void divide_by(const std::vector<double>& divisors) {
    for (const double d : divisors) rope_.multiplier.push_back(1 / d);
    origins().weights("multiplier", "1 / rope_freqs.weight");
    part_.note(NoteKind::scaling, "inv_freq is divided by rope_freqs.weight");
  }

  // Hunyuan's alpha: the base grows.
  bool set_ntk(bool uneven) {
    if (!part_.name().starts_with("hunyuan")) return false;
    const auto alpha = keys_.number("rope.scaling.alpha");
    if (!alpha || *alpha == 0) return false;
    if (uneven || factor_ != 1 || attention_ != 1) refuse("rope.scaling.alpha with another scaling");
    if (!(*alpha >= 1)) keys_.refuse("rope.scaling.alpha", "must be at least 1");
    rope_.scaling = Ntk{*alpha};
    part_.record("scaling", "rope.scaling.alpha");
    part_.record("scaling.factor", "rope.scaling.alpha");
    part_.derived("attention_factor", "1 for ntk");
    return true;
  }

  // 1, 1, ..., 1e30, 1e30: pairs divided by 1e30 do not rotate (Gemma 4).
  bool set_proportional(const std::vector<double>& divisors) {
    constexpr double never = 1e29;
    const auto end = std::find_if(divisors.begin(), divisors.end(), [](double d) { return d != 1; });
    const bool still = std::all_of(end, divisors.end(), [](double d) { return d > never; });
    if (end == divisors.begin() || end == divisors.end() || !still || attention_ != 1) return false;
    const auto pairs = static_cast<double>(divisors.size());
    const auto rotating = static_cast<double>(end - divisors.begin());
    if (std::floor(rotating / pairs * pairs) != rotating) return false;
    rope_.scaling = Proportional{rotating / pairs, factor_};
    record_scaling();
    record_factor();
    origins().weights("scaling", "rope_freqs.weight");
    origins().weights("scaling.fraction", "rope_freqs.weight");
    part_.note(NoteKind::scaling, "the pairs whose factor in rope_freqs.weight is 1e30 stand still");
    return true;
  }

  // ggml's magnitude is 1 + 0.1 ln(factor); yarn_log_multiplier makes it DeepSeek's ratio; attn_factor multiplies it.
  void set_yarn() {
    Yarn scaling{.factor = factor_};
    record_scaling();
    record_factor();
    record_trained_length();
    read_native(part_, keys_,
                {{.name = "beta_fast", .key = "rope.scaling.yarn_beta_fast"},
                 {.name = "beta_slow", .key = "rope.scaling.yarn_beta_slow"},
                 {.name = "truncate"}},
                {OriginKind::model_default, part_.name()}, scaling);
    const auto weight = keys_.number("rope.scaling.yarn_ext_factor");
    scaling.extrapolation_factor = weight && *weight >= 0 ? *weight : 1;
    if (scaling.extrapolation_factor == 0) refuse("yarn_ext_factor 0");
    if (trained_ == 0)
      missing_key(part_, "rope.scaling.original_context_length", "scaling yarn without context_length");
    scaling.trained_length = trained_;
    scaling.attn_factor = attention_;
    if (keys_.number("rope.scaling.yarn_attn_factor"))
      part_.note(NoteKind::unread, "rope.scaling.yarn_attn_factor is not used: llama.cpp computes it anew for yarn");
    const double given = keys_.number("rope.scaling.yarn_log_multiplier").value_or(0);
    if (given != 0) {
      // Conversion stores a tenth of mscale_all_dim for MLA; 0.1f is not a tenth.
      const bool mla = part_.arch.quirk == GgufQuirk::mla;
      scaling.mscale_all_dim = mla ? static_cast<double>(static_cast<float>(given) / 0.1F) : given;
      scaling.mscale = part_.name() == "deepseek2" ? *scaling.mscale_all_dim : 1.0;
      if (mla) {  // DeepSeek's graphs alone scale it
        const double softmax = 1 + given * std::log(factor_);
        used_.softmax_factor = softmax * softmax;
        part_.note(NoteKind::attention,
                   "yarn_log_multiplier also scales the softmax of the attention, by (1 + yarn_log_multiplier * "
                   "ln(factor))^2 = ",
                   detail::significant(used_.softmax_factor, 7), ", which is no part of the rope");
      }
    }
    part_.note(NoteKind::scaling, "yarn as ggml has it: the correction range is rounded outward (truncate)");
    if (part_.compresses()) {
      scaling.attention_factor = 1;
      part_.note(NoteKind::scaling, "yarn without an attention factor, as llama.cpp turns ", part_.name());
    }
    rope_.scaling = scaling;
    record_magnitude(scaling);
  }

  void record_magnitude(const Yarn& scaling) {
    if (keys_.has("rope.scaling.yarn_ext_factor")) {
      part_.record("scaling.extrapolation_factor", "rope.scaling.yarn_ext_factor");
    }
    std::string magnitude = scaling.attention_factor ? "1" : "0.1 * ln(factor) + 1";
    if (scaling.mscale_all_dim) {
      magnitude = "(0.1 * mscale * ln(factor) + 1) / (0.1 * mscale_all_dim * ln(factor) + 1)";
      for (const char* value : {"scaling.mscale", "scaling.mscale_all_dim"}) {
        part_.record(value, "rope.scaling.yarn_log_multiplier");
      }
    }
    if (keys_.has("rope.scaling.attn_factor")) {
      part_.record("scaling.attn_factor", "rope.scaling.attn_factor");
      magnitude = "rope.scaling.attn_factor * (" + magnitude + ")";
    }
    part_.derived("attention_factor", magnitude);
  }

  [[noreturn]] static void refuse(const std::string& what) {
    fail(Code::ROPE, "read_config", "a scaling must be one that a rope here can hold but got ", what);
  }

  const GgufPart& part_;
  const Object& keys_;
  ModelRope& used_;
  Rope& rope_;
  std::int64_t context_;
  std::string type_;
  double factor_ = 1;
  double attention_ = 1;
  std::int64_t trained_ = 0;
};

// ---- the rope of each layer ----

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
    if (const std::string why = why_still(); !why.empty()) {
      for (const char* key : known_keys) keys_.mark(key);
      return part_.note(NoteKind::no_rope, why);
    }
    read_layers();
    ModelPart& added = part_.add_to_model(static_cast<int>(layers_.size()));
    added.context = keys_.integer("context_length", 0, max_length).value_or(0);
    added.model_type.clear();
    added.turns_back = part_.compresses();
    context_ = added.context;
    for (auto layer = layers_.begin(); layer != layers_.end(); ++layer) {
      if (layer->has_rope && std::find(layers_.begin(), layer, *layer) == layer) add_rope(*layer);
    }
    const std::vector<int> without = layers_without_rope(part_.reading.model, part_.path);
    read_query_scale(part_, {}, Unscaled{}, layers_.size(), without);
  }

 private:
  static constexpr const char* known_keys[] = {"rope.dimension_count",    "rope.dimension_count_swa",
                                               "rope.dimension_sections", "rope.freq_base",
                                               "rope.freq_base_swa",      "rope.scaling.type",
                                               "rope.scaling.factor",     "rope.scaling.original_context_length",
                                               "rope.scaling.finetuned",  "rope.scaling.attn_factor"};

  // Why no layer turns; "" if layers may turn. Granite: rope.scaling.finetuned says whether the model has a rope.
  std::string why_still() const {
    const bool on = keys_.boolean("rope.scaling.finetuned", true);
    if (arch_.rope_type == GgufRopeType::none || (arch_.quirk == GgufQuirk::permuted_switch && !on))
      return "architecture " + in_quotes(part_.name()) + " has no rotary positions in llama.cpp";
    const bool nothing = keys_.integer("rope.dimension_count", 0, max_dim) == 0;
    return nothing ? keys_.path_of("rope.dimension_count") + " is 0: nothing turns" : "";
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
    const auto turning = flags("attention.rope_pattern", count), recurrent = flags("attention.recurrent_layers", count);
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      GgufLayer layer{heads[at], kv_heads[at], windows[at], true};
      const bool turns = turning ? (*turning)[at] : recurrent ? !(*recurrent)[at] : rotates(i, layer.window);
      layer.has_rope = layer.heads > 0 && layer.kv_heads > 0 && turns;
      layer.window = layer.window && windows_turn_otherwise();
      layers_.push_back(layer);
    }
    note_gaps();
  }

  bool has_window() const { return keys_.number("attention.sliding_window").value_or(0) > 0; }

  // Whether the layers with a sliding window have no scaling, and whether their rope differs from the others' at all.
  bool windows_are_plain() const {
    return arch_.quirk == GgufQuirk::window_plain || arch_.quirk == GgufQuirk::window_after || part_.compresses();
  }
  bool windows_turn_otherwise() const {
    return windows_are_plain() || keys_.has("rope.freq_base_swa") || keys_.has("rope.dimension_count_swa");
  }

  // The truth of each layer in the list of that key; nothing if the file has no such key.
  std::optional<std::vector<bool>> flags(const char* key, int least) const {
    const Json* list = keys_.value(key);
    if (list == nullptr) return std::nullopt;
    std::vector<bool> truths;
    for (const Json& one : *list) {
      if (one.is_boolean() || one.is_number()) truths.push_back(one != false && one != 0);
    }
    if (!list->is_array() || truths.size() != list->size() || truths.size() < static_cast<std::size_t>(least))
      keys_.refuse(key, "must have one true or false per layer");
    return truths;
  }

  // Which layers have a sliding window; all false if that does not matter to the rope. In DeepSeek-V4 these are the
  // layers that compress no keys.
  std::vector<bool> window_layers(int count) {
    std::vector<bool> windows(static_cast<std::size_t>(count), false);
    const bool chooses = arch_.quirk == GgufQuirk::window_only || arch_.quirk == GgufQuirk::window_or_dense;
    if (part_.compresses()) {
      keys_.mark("attention.compress_rope_freq_base");
      constexpr const char* key = "attention.compress_ratios";
      const auto ratios = flags(key, count);
      if (!ratios && part_.name() == "deepseek4") missing_key(part_, key, "a GGUF of deepseek4");
      windows = ratios.value_or(windows);
      windows.flip();
      return windows;
    }
    if (!chooses && !windows_turn_otherwise()) return windows;
    constexpr const char* pattern = "attention.sliding_window_pattern";
    int period = arch_.period;
    if (const Json* value = keys_.value(pattern); value != nullptr && value->is_array()) {
      // The list may leave out the blocks that predict further tokens, which have a window (dots3note).
      windows = *flags(pattern, count - whole("nextn_predict_layers", 0, count).value_or(0));
      windows.resize(static_cast<std::size_t>(count), true);
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
                 "attention.sliding_window_pattern is not given: all layers have a window except one in ", period,
                 ", as llama.cpp has it for ", part_.name());
    }
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const int place = static_cast<int>(i) % period;
      const bool after = arch_.quirk == GgufQuirk::window_after || arch_.quirk == GgufQuirk::window_or_dense;
      windows[i] = after ? place > 0 : place < period - 1;
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
      case GgufQuirk::window_or_dense:
        return window || !has_window() || layer < whole("leading_dense_block_count", 0, max_blocks).value_or(0);
      case GgufQuirk::hybrid: {
        const int period = arch_.period != 0 ? arch_.period : every_fourth;
        return (layer + 1) % whole("full_attention_interval", 1, max_blocks).value_or(period) == 0;
      }
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
    GgufScaling(part_, used, context_).set(layer.window && windows_are_plain());
    note_missing_factors(used.rope);
    used.origins = part_.origins().of_rope();
    part_.reading.model.ropes.push_back(std::move(used));
  }

  // Llama 3.1 and 3.2 have llama3 factors, which conversion writes as a tensor; files of before that have none.
  void note_missing_factors(const Rope& rope) const {
    constexpr double base = 500000;
    constexpr std::int64_t trained = 8192;
    if (part_.name() != "llama" || rope.base != base || context_ <= trained) return;
    if (!std::holds_alternative<Unscaled>(rope.scaling)) return;
    part_.note(NoteKind::warning, "base 500000 and context_length ", context_, " are those of Llama 3.1, whose GGUFs ",
               "have rope_freqs.weight, but this file has not: beyond ", trained,
               " tokens it turns unlike the model that was trained", part_.if_split());
  }

  // The layers with a rope follow from the pattern of the window, or from the architecture if it leaves some out.
  void record_layers() {
    const bool all = std::all_of(layers_.begin(), layers_.end(), [&](const GgufLayer& l) { return l == layers_[0]; });
    part_.record("layers", "block_count");
    const char* pattern = part_.compresses() ? "attention.compress_ratios" : "attention.sliding_window_pattern";
    if (!all) part_.record_or_default("layers", pattern);
    part_.record("heads", "attention.head_count");
    part_.record("kv_heads", word_for(part_, "attention.head_count_kv attention.head_count"));
  }

  void set_shape(const GgufLayer& layer, ModelRope& used) {
    Rope& rope = used.rope;
    const std::string key = word_for(part_, layer.window ? "attention.key_length_mla_swa attention.key_length_mla "
                                                           "attention.key_length_swa attention.key_length"
                                                         : "attention.key_length_mla attention.key_length");
    auto length = whole(key.c_str(), 2, max_dim);
    if (length && used.kv_heads == 1 && key.find("_mla") != key.npos) {
      used.kv_heads = used.heads;
      part_.derived("kv_heads", "attention.head_count");
      part_.note(NoteKind::read_as,
                 "the k heads are as many as the q heads: the GGUF stores the rotated part of k once, for all of them");
    }
    part_.record("head_dim", key);
    if (!length) {
      part_.derived("head_dim", "embedding_length / attention.head_count");
      const int width = needed(part_, "embedding_length", 1 << 24);
      if (width % layer.heads != 0 || width / layer.heads > max_dim)
        keys_.refuse("embedding_length", "must be a multiple of head_count, a head at most ", max_dim);
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
    if (arch_.quirk == GgufQuirk::mla || part_.compresses()) {
      used.first = rope.head_dim - rope.rotary_dim;
      if (used.first != 0) part_.derived("first", "head_dim - rotary_dim");
      part_.note(NoteKind::model, "the rotated block is the last of the head",
                 (part_.compresses() ? "" : ": multi-head latent attention"));
    }
  }

  void set_base(const GgufLayer& layer, Rope& rope) {
    const bool own = layer.window && keys_.has("rope.freq_base_swa"), compressed = part_.compresses() && !layer.window;
    const char* key = compressed ? "attention.compress_rope_freq_base" : own ? "rope.freq_base_swa" : "rope.freq_base";
    for (const char* other : {"rope.freq_base", "rope.freq_base_swa"}) keys_.mark(other);
    const auto given = keys_.number(key);
    if (!given && compressed) missing_key(part_, key, "a GGUF whose layers compress their keys");
    part_.record_or_default("base", key);
    if (!given) part_.note(NoteKind::model_default, key, " is not given: 10000");
    rope.base = given.value_or(10000);
    if (layer.window && !own && arch_.window_10000) {
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
      part_.note(
          NoteKind::model, "pairing ", detail::familiar(rope.pairing), ", as llama.cpp turns architecture ", name,
          (permuted ? ": conversion to GGUF reorders the rows of q and k, so that half in Hugging Face's weights is "
                      "interleaved here"
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
            ? "the pairs take time, height and width in turn, and the pairs left over take time, as in training; "
              "llama.cpp gives the pairs left over a fourth position"
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

// "dimension_count 128, freq_base 10000": what the file itself tells of its rope; "" if it has no such key.
std::string told_of_rope(const Json& own) {
  std::string told;
  for (const auto& item : own.items()) {
    if (!item.key().starts_with("rope.")) continue;
    told += (told.empty() ? "" : ", ") + printable(item.key().substr(5)) + ' ' + shown(item.value());
  }
  return told;
}

GgufArchitecture architecture_of(Reading& reading, const std::string& name, const Json& own) {
  const ConfigOptions& options = reading.options;
  const std::string& asked = options.model_type.empty() ? name : options.model_type;
  if (const GgufArchitecture* known = find_architecture(asked)) {
    if (asked != name)
      reading.note(NoteKind::chosen, "", "the architecture given, " + asked + ", overrides " + in_quotes(name));
    return *known;
  }
  if (own.value("rope.dimension_count", Json()) == 0) return {};  // nothing turns, whatever the pairing
  if (!own.contains("block_count")) {
    fail(Code::MODEL_TYPE, "read_config", "a GGUF must describe a language model but its architecture ",
         in_quotes(asked), " is not known, and it has no ", name,
         ".block_count: give the model's config.json");
  }
  const std::string told = told_of_rope(own);
  if (!options.pairing || !options.model_type.empty()) {
    std::string type = options.words.give_type;
    if (!type.empty() && own.contains("rope.dimension_sections"))
      type += ", as qwen2vl (axes in runs) or qwen3vl (axes by turns)";
    fail(Code::MODEL_TYPE, "read_config", "the architecture must be one that is known but got ", in_quotes(asked),
         options.pairing ? "" : ", and no pairing is given", "; of a rope the file says ",
         told.empty() ? "nothing" : told,
         with_advice("", options.pairing ? type : ways_on(options.words, type, !told.empty())));
  }
  if (told.empty() && !options.sets_base) {
    fail(Code::MODEL_TYPE, "read_config", "a GGUF of an architecture that is not known must have a rope key but ",
         in_quotes(name), " has none, as the files of models without a rope", with_advice("", options.words.give_base));
  }
  reading.note(
      NoteKind::chosen, "",
      "architecture " + in_quotes(name) + " is not known: the pairing given decides, and the generic keys are read");
  return {};
}

}  // namespace

Model read_gguf(const InputFile& file, const ConfigOptions& options) {
  const Gguf gguf(file);
  const SheetOfReading one_sheet;
  Reading reading{options};
  const Object all(gguf.metadata(), "", reading.ledger);
  const auto given = all.text("general.architecture");
  if (!given) {
    fail(Code::CONFIG_MISSING, "read_config",
         "a GGUF must have general.architecture but has not (of a file in several parts, the first has it)");
  }
  const std::string name = reading.model.model_type = *given;
  Json own = Json::object();  // the metadata whose keys begin with the name, under the rest of their keys
  for (const auto& item : all.json().items()) {
    if (item.key().starts_with(name + ".")) own[item.key().substr(name.size() + 1)] = item.value();
  }
  GgufArchitecture arch = architecture_of(reading, name, own);
  // With hyper-connections a DFlash drafts for DeepSeek-V4 and turns as it does.
  const bool is_own = options.model_type.empty() || options.model_type == name;
  if (is_own && name == "dflash" && own.value("hyper_connection.count", Json(0)) != 0)
    arch = *find_architecture("deepseek4");
  const Family family{.type = name};
  const GgufPart part{{reading, "", Object(own, name, reading.ledger), family}, gguf, arch};
  GgufReader(part).read();
  refuse_unread(all, part);
  return std::move(reading.model);
}

}  // namespace rotary::files
