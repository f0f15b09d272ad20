// DecoderConfig: its names, its rules, the library's own config.json and those of Hugging Face's families.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "files/models/families.h"
#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary/config.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/decoder.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using rotary::Code;
using rotary::files::Biases;
using rotary::files::DecoderFacts;
using rotary::files::Family;
using rotary::files::Json;
using rotary::files::Object;
using rotary::files::Windows;
using rotary::files::words;
using OrderedJson = nlohmann::ordered_json;

constexpr Refusal refuse{"decoder"}, refuse_file{"read_config"};

constexpr const char* position_names[] = {"rope", "learned", "sinusoidal", "none", "alibi"};
constexpr const char* norm_names[] = {"layer", "rms"};
constexpr const char* residual_names[] = {"sequential", "parallel", "parallel_shared"};

// The enumerator of that name, of those up to last.
template <class Word>
std::optional<Word> word_named(std::string_view said, Word last) noexcept {
  for (std::size_t i = 0; i <= static_cast<std::size_t>(last); ++i) {
    if (said == name(static_cast<Word>(i))) return static_cast<Word>(i);
  }
  return std::nullopt;
}

}  // namespace

const char* name(PositionEncoding p) noexcept { return position_names[static_cast<std::size_t>(p)]; }
const char* name(Norm n) noexcept { return norm_names[static_cast<std::size_t>(n)]; }
const char* name(Residual r) noexcept { return residual_names[static_cast<std::size_t>(r)]; }
std::optional<PositionEncoding> position_encoding(std::string_view name) noexcept {
  return word_named(name, PositionEncoding::alibi);
}

// ---- the rules -----------------------------------------------------------------------------------

AttentionOptions attention_options(const DecoderConfig& c) {
  return completed(AttentionOptions{.width = c.width,
                                    .heads = c.heads,
                                    .kv_heads = c.kv_heads,
                                    .head_dim = c.head_dim,
                                    .qkv_bias = c.qkv_bias,
                                    .output_bias = c.output_bias,
                                    .qk_norm = c.qk_norm,
                                    .norm_eps = c.norm_eps,
                                    .dropout = c.dropout});
}

void check(const DecoderConfig& c) {
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"vocabulary", c.vocabulary},     {"width", c.width},    {"layers", c.layers}, {"heads", c.heads},
      {"feed_forward", c.feed_forward}, {"context", c.context}};
  for (const auto& [what, size] : sizes) {
    refuse.unless(size >= 1, Code::SHAPE, what, " must be at least 1 but got ", size);
  }
  refuse.unless(c.dropout >= 0 && c.dropout < 1, Code::CONFIG_VALUE, "dropout must be from 0 to below 1 but got ",
                c.dropout);
  const std::int64_t head_dim = attention_options(c).head_dim;
  refuse.unless((c.position == PositionEncoding::rope) == c.rope.has_value(), Code::ROPE,
                "a rope must be given where positions are rope, and only there, but they are ", name(c.position));
  if (c.rope && c.rope->rope.head_dim != head_dim) {
    refuse(Code::SHAPE, "the rope must be for heads of ", head_dim, " elements but has ", c.rope->rope.head_dim);
  }
  refuse.unless(c.position != PositionEncoding::sinusoidal || c.width % 2 == 0, Code::SHAPE,
                "width must be even for sinusoidal positions but got ", c.width);
  refuse.unless(c.windows.empty() || c.windows.size() == static_cast<std::size_t>(c.layers), Code::SHAPE,
                "windows must be none or one for each of the ", c.layers, " layers but has ", c.windows.size());
  for (const std::int64_t window : c.windows) {
    refuse.unless(window >= 0, Code::CONFIG_VALUE, "a window must be at least 0 (none) but got ", window);
  }
  refuse.unless(c.norm_eps >= 0 && std::isfinite(c.norm_eps), Code::CONFIG_VALUE,
                "norm_eps must be a number from 0 but got ", c.norm_eps);
}

DecoderConfig completed(DecoderConfig config) {
  check(config);
  const AttentionOptions attention = attention_options(config);
  config.kv_heads = attention.kv_heads;
  config.head_dim = attention.head_dim;
  return config;
}

// ---- the library's own config.json ---------------------------------------------------------------

namespace {

// Calls visit with the key and the value of each field, in the order of the file; visit.rope reads or writes the rope.
template <class Config, class Visit>
void for_each_field(Config& c, const Visit& visit) {
  visit("vocab_size", c.vocabulary);
  visit("hidden_size", c.width);
  visit("num_hidden_layers", c.layers);
  visit("num_attention_heads", c.heads);
  visit("num_key_value_heads", c.kv_heads);
  visit("head_dim", c.head_dim);
  visit("intermediate_size", c.feed_forward);
  visit("max_position_embeddings", c.context);
  visit("position_embedding_type", c.position);
  if (c.position == PositionEncoding::rope) visit.rope(c.rope, c.angles);
  visit("norm", c.norm);
  visit("norm_eps", c.norm_eps);
  visit("hidden_act", c.activation);
  visit("gated", c.gated);
  visit("qkv_bias", c.qkv_bias);
  visit("output_bias", c.output_bias);
  visit("feed_bias", c.feed_bias);
  visit("head_bias", c.head_bias);
  visit("qk_norm", c.qk_norm);
  visit("head", c.head);
  visit("tie_word_embeddings", c.tied);
  visit("residual", c.residual);
  visit("windows", c.windows);
  visit("dropout", c.dropout);
}

struct Writer {
  OrderedJson& json;

  template <class Value>
  void operator()(const char* key, const Value& value) const {
    if constexpr (std::is_enum_v<Value>) {
      json[key] = name(value);
    } else {
      json[key] = value;
    }
  }
  void operator()(const char* key, const std::vector<std::int64_t>& windows) const {
    if (!windows.empty()) json[key] = windows;
  }
  void rope(const std::optional<rotary::ModelRope>& model_rope, rotary::Angles angles) const {
    const rotary::Rope& rope = model_rope->rope;
    refuse.unless(
        model_rope->first == 0 && rope.exponent_dim == 0 && !rope.clockwise &&
            rope.pairing != rotary::Pairing::interleaved_to_half,
        Code::ROPE,
        "config.json takes a rope that turns the first elements in place and counterclockwise but got another");
    json["rope_parameters"] = OrderedJson::parse(rotary::rope_parameters(*model_rope));
    json["rope_interleave"] = rope.pairing == rotary::Pairing::interleaved;
    json["angles"] = rotary::name(angles);
  }
};

constexpr std::int64_t max_value = std::int64_t{1} << 40;

rotary::ModelRope sole_rope(const rotary::Model& model) {
  refuse_file.unless(model.ropes.size() == 1, Code::ROPE, "a decoder must have one rope for all of its layers but ",
                     model.model_type, " has ", model.ropes.size());
  const rotary::ModelRope& rope = model.ropes.front();
  if (!rope.layers_without_rope.empty()) {
    refuse_file(Code::ROPE, "all layers of a ", model.model_type, " must rotate but layer ",
                rope.layers_without_rope.front(), " does not");
  }
  return rope;
}

// Reads the fields that keys have. own: the text, where it is the library's own, which must have the sizes and the
// rope. spellings: a family's words for the keys; what it does not list is not read.
struct Reader {
  const Object& keys;
  const std::string* own = nullptr;
  const Json* spellings = nullptr;

  template <class Value>
  void operator()(const char* key, Value& value) const {
    if (spellings == nullptr) return read(key, value);
    const std::string listed = rotary::files::string_of(*spellings, key);
    const std::vector<std::string_view> all = words(listed);
    const auto there = std::find_if(all.begin(), all.end(), [this](auto word) { return keys.has(word); });
    if (there != all.end()) read(*there, value);
  }
  void rope(std::optional<rotary::ModelRope>& rope, rotary::Angles& angles) const {
    if (own == nullptr) return;
    word("angles", angles, rotary::Angles::float32);
    rope = sole_rope(rotary::parse_config(*own));
  }

 private:
  void read(std::string_view key, std::int64_t& size) const {
    const auto value = keys.integer(key, 1, max_value);
    refuse.unless(value || own == nullptr, Code::CONFIG_MISSING, "config.json must have ", key, " but has none");
    size = value.value_or(size);
  }
  void read(std::string_view key, double& number) const { number = keys.number(key).value_or(number); }
  void read(std::string_view key, bool& on) const { on = keys.boolean(key, on); }
  void read(std::string_view key, std::vector<std::int64_t>& windows) const {
    const std::vector<int> given = keys.integers(key).value_or(std::vector<int>());
    windows.assign(given.begin(), given.end());
  }
  void read(std::string_view key, PositionEncoding& position) const { word(key, position, PositionEncoding::alibi); }
  void read(std::string_view key, Norm& norm) const { word(key, norm, Norm::rms); }
  void read(std::string_view key, Residual& residual) const { word(key, residual, Residual::parallel_shared); }
  void read(std::string_view key, Activation& chosen) const { word(key, chosen, Activation::linear); }

  // An enumerator up to last, by its name; it stays as it is where there is no such key.
  template <class Word>
  void word(std::string_view key, Word& value, Word last) const {
    const std::optional<std::string> said = keys.text(key);
    if (!said) return;
    std::optional<Word> named = word_named(*said, last);
    if constexpr (std::is_same_v<Word, Activation>) named = activation(*said);  // it has other spellings
    if (!named) keys.refuse(key, "must be a word that this version knows (no activation with weights of its own)");
    value = *named;
  }
};

DecoderConfig read_own(const std::string& text, const Object& keys) {
  DecoderConfig c;
  for_each_field(c, Reader{keys, &text});
  c.padding_id = keys.integer("pad_token_id", 0, max_value).value_or(-1);
  c.finite_mask = keys.boolean("finite_mask", false);
  return c;
}

// ---- a family's config.json ----------------------------------------------------------------------

// Refuses options that transformers supports and this library does not.
void refuse_unsupported(const Object& keys) {
  const auto filled = [&keys](const char* key) {
    const Json& json = keys.json();
    const auto found = json.find(key);
    return found != json.end() && !found->is_null() && !found->empty();
  };
  for (const char* key : {"quantization_config", "per_layer_config"}) {
    if (filled(key)) keys.refuse(key, "must be absent (this library does not honour it)");
  }
  if (!keys.boolean("is_causal", true)) keys.refuse("is_causal", "must be true: a decoder sees the past only");
}

std::int64_t window_of(const Object& keys) {
  constexpr std::int64_t otherwise = 4096;
  if (keys.is_null("sliding_window")) return 0;
  return keys.integer("sliding_window", 1, max_value).value_or(otherwise);
}

void read_windows(const DecoderFacts& facts, const Object& keys, DecoderConfig& c) {
  const auto count = static_cast<std::size_t>(c.layers);
  if (facts.windows == Windows::all_layers) {
    if (const std::int64_t window = window_of(keys)) c.windows.assign(count, window);
    return;
  }
  if (facts.windows == Windows::none) return;
  const bool used = keys.boolean("use_sliding_window", false);
  const std::int64_t window = used ? window_of(keys) : 0;
  const auto types = keys.texts("layer_types");
  if (!types) {
    const std::int64_t full = keys.integer("max_window_layers", -max_value, max_value).value_or(28);
    if (window == 0) return;
    for (std::int64_t i = 0; i < c.layers; ++i) c.windows.push_back(i >= full ? window : 0);
    return;
  }
  if (types->size() != count) {
    keys.refuse("layer_types", "must name one type for each of the " + std::to_string(count) + " layers");
  }
  for (const std::string& type : *types) {
    const bool slides = type == "sliding_attention";
    if (!slides && type != "full_attention") {
      keys.refuse("layer_types", "must name full_attention and sliding_attention only");
    }
    if (slides && window == 0) {
      keys.refuse("layer_types",
                  "must not name sliding_attention where use_sliding_window is false or there is no "
                  "sliding_window");
    }
    c.windows.push_back(slides ? window : 0);
  }
}

// Missing keys have the defaults of transformers' config classes.
DecoderConfig read_family(const Family& family, const std::string& text, const Object& keys) {
  refuse_unsupported(keys);
  static const Json rows = rotary::files::parse_json(rotary::embedded::decoder_families());
  const DecoderFacts& facts = family.decoder;
  const Json& row = rows.at(std::string(facts.names));
  DecoderConfig c;
  c.model_type = family.type;
  c.rope = sole_rope(rotary::parse_config(text));
  c.angles = rotary::Angles::float32;
  c.vocabulary = facts.vocabulary;
  c.width = family.shape.hidden;
  c.feed_forward = facts.feed_forward;
  c.context = family.context;
  c.norm_eps = facts.norm_eps;
  c.activation = activation(facts.activation).value();
  c.qk_norm = facts.qk_norm;
  rotary::files::Ledger ledger;
  for_each_field(c, Reader{Object(row.at("config"), "", ledger)});
  for_each_field(c, Reader{keys, nullptr, &row.at("keys")});
  if (c.feed_forward == 0) c.feed_forward = 4 * c.width;
  const bool grouped = row.value("grouped", false);
  c.layers = static_cast<std::int64_t>(c.rope->layers.size());
  c.heads = c.rope->heads;
  c.kv_heads = grouped ? c.rope->kv_heads : c.heads;
  c.head_dim = c.rope->rope.head_dim;
  refuse_file.unless(grouped || c.heads * c.head_dim == c.width, Code::CONFIG_VALUE, "the heads of ", c.model_type,
                     " must share the ", c.width, " elements but are ", c.heads, " of ", c.head_dim);
  if (c.residual == Residual::parallel && !keys.boolean("use_parallel_residual", true))
    c.residual = Residual::sequential;
  c.finite_mask = c.residual == Residual::parallel_shared;  // GPT-J
  c.padding_id = keys.integer("pad_token_id", -1, max_value).value_or(-1);
  c.qkv_bias = facts.biases == Biases::as_configured ? keys.boolean("attention_bias", facts.attention_bias)
                                                     : facts.biases == Biases::always_but_output;
  c.output_bias = c.qkv_bias && facts.biases != Biases::always_but_output;
  c.feed_bias = c.feed_bias || (facts.mlp_bias && keys.boolean("mlp_bias", false));
  read_windows(facts, keys, c);
  return c;
}

}  // namespace

std::string decoder_config_json(const DecoderConfig& config, std::int64_t parameters) {
  const DecoderConfig c = completed(config);
  OrderedJson json = {{"model_type", "rotary_decoder"}};
  for_each_field(c, Writer{json});
  if (c.padding_id >= 0) json["pad_token_id"] = c.padding_id;
  if (c.finite_mask) json["finite_mask"] = true;
  json["parameters"] = parameters;
  return json.dump(2) + "\n";
}

DecoderConfig read_decoder_config(const std::filesystem::path& dir) {
  const std::string text = rotary::files::json_file_text("read_config", dir / "config.json");
  const Json json = rotary::files::parse_json(text);
  if (!json.is_object()) refuse(Code::JSON, "config.json must be an object but is ", rotary::files::shown(json));
  rotary::files::Ledger ledger;
  const Object keys(json, "", ledger);
  const std::string type = keys.text("model_type").value_or("");
  const auto is_decoder = [](const Family* family) { return family != nullptr && !family->decoder.names.empty(); };
  const Family* family = rotary::files::find_family(type);
  if (type != "rotary_decoder" && !is_decoder(family)) {
    std::string types = "rotary_decoder";
    for (const std::string_view one : rotary::files::model_types()) {
      if (is_decoder(rotary::files::find_family(one))) types.append(", ").append(one);
    }
    refuse(Code::MODEL_TYPE, "model_type must be one of ", types, " but got ",
           type.empty() ? "none" : rotary::files::in_quotes(type));
  }
  DecoderConfig config = is_decoder(family) ? read_family(*family, text, keys) : read_own(text, keys);
  check(config);
  return config;
}

}  // namespace rotary_torch
