// DecoderConfig: its names, its rules, and the library's own config.json.
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary/config.h"
#include "rotary_torch/models/decoder.h"
#include "rotary_torch/models/families.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using rotary::Code;
using rotary::files::Json;
using rotary::files::Object;
using OrderedJson = nlohmann::ordered_json;

constexpr Refusal refuse{"decoder"};

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

void check(const DecoderConfig& c) {
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"vocabulary", c.vocabulary},     {"width", c.width},    {"layers", c.layers}, {"heads", c.heads},
      {"feed_forward", c.feed_forward}, {"context", c.context}};
  for (const auto& [what, size] : sizes) {
    if (size < 1) refuse(Code::SHAPE, what, " must be at least 1 but got ", size);
  }
  if (c.kv_heads < 0 || (c.kv_heads > 0 && c.heads % c.kv_heads != 0)) {
    refuse(Code::SHAPE, "kv_heads must divide the ", c.heads, " heads but got ", c.kv_heads);
  }
  if (c.head_dim < 0 || (c.head_dim == 0 && c.width % c.heads != 0)) {
    refuse(Code::SHAPE, "heads must divide width ", c.width, " where head_dim is not given but got ", c.heads);
  }
  const std::int64_t head_dim = c.head_dim == 0 ? c.width / c.heads : c.head_dim;
  if ((c.position == PositionEncoding::rope) != c.rope.has_value()) {
    refuse(Code::ROPE, "a rope must be given where positions are rope, and only there, but they are ",
           name(c.position));
  }
  if (c.rope && c.rope->rope.head_dim != head_dim) {
    refuse(Code::SHAPE, "the rope must be for heads of ", head_dim, " elements but has ", c.rope->rope.head_dim);
  }
  if (c.position == PositionEncoding::sinusoidal && c.width % 2 != 0) {
    refuse(Code::SHAPE, "width must be even for sinusoidal positions but got ", c.width);
  }
  if (!c.windows.empty() && c.windows.size() != static_cast<std::size_t>(c.layers)) {
    refuse(Code::SHAPE, "windows must be none or one for each of the ", c.layers, " layers but has ", c.windows.size());
  }
  for (const std::int64_t window : c.windows) {
    if (window < 0) refuse(Code::CONFIG_VALUE, "a window must be at least 0 (none) but got ", window);
  }
  if (!(c.dropout >= 0 && c.dropout < 1)) {
    refuse(Code::CONFIG_VALUE, "dropout must be from 0 to below 1 but got ", c.dropout);
  }
  if (!(c.norm_eps >= 0) || !std::isfinite(c.norm_eps)) {
    refuse(Code::CONFIG_VALUE, "norm_eps must be a number from 0 but got ", c.norm_eps);
  }
}

DecoderConfig completed(DecoderConfig config) {
  check(config);
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_dim == 0) config.head_dim = config.width / config.heads;
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
    if (model_rope->first != 0 || !rope.axis.empty() || !rope.index.empty() || rope.exponent_dim != 0 ||
        rope.pairing == rotary::Pairing::interleaved_to_half || rope.clockwise || !rope.inv_freq.empty() ||
        !rope.multiplier.empty()) {
      refuse(Code::ROPE,
             "config.json takes a rope that turns the first elements in place and counterclockwise along one axis, by "
             "computed frequencies, but got another");
    }
    json["rope_parameters"] = OrderedJson::parse(rotary::rope_parameters(*model_rope));
    json["rope_interleave"] = rope.pairing == rotary::Pairing::interleaved;
    json["angles"] = rotary::name(angles);
  }
};

constexpr std::int64_t max_value = std::int64_t{1} << 40;

struct Reader {
  const std::string& text;
  const Object& keys;

  void operator()(const char* key, std::int64_t& size) const {
    const auto value = keys.integer(key, 1, max_value);
    if (!value) refuse(Code::CONFIG_MISSING, "config.json must have ", key, " but has none");
    size = *value;
  }
  void operator()(const char* key, double& number) const { number = keys.number(key).value_or(number); }
  void operator()(const char* key, bool& on) const { on = keys.boolean(key, on); }
  void operator()(const char* key, std::vector<std::int64_t>& windows) const {
    const std::vector<int> given = keys.integers(key).value_or(std::vector<int>());
    windows.assign(given.begin(), given.end());
  }
  void operator()(const char* key, PositionEncoding& position) const { word(key, position, PositionEncoding::alibi); }
  void operator()(const char* key, Norm& norm) const { word(key, norm, Norm::rms); }
  void operator()(const char* key, Residual& residual) const { word(key, residual, Residual::parallel_shared); }
  void operator()(const char* key, Activation& chosen) const { word(key, chosen, Activation::linear); }
  void rope(std::optional<rotary::ModelRope>& rope, rotary::Angles& angles) const {
    word("angles", angles, rotary::Angles::float32);
    rope = sole_rope(rotary::parse_config(text));
  }

 private:
  // An enumerator up to last, by its name; it stays as it is where there is no such key.
  template <class Word>
  void word(const char* key, Word& value, Word last) const {
    const std::optional<std::string> said = keys.text(key);
    if (!said) return;
    std::optional<Word> named = word_named(*said, last);
    if constexpr (std::is_same_v<Word, Activation>) named = activation(*said);  // it has other spellings
    if (!named) keys.refuse(key, "must be a word that this version knows");
    value = *named;
  }
};

DecoderConfig read_own(const std::string& text, const Object& keys) {
  DecoderConfig c;
  for_each_field(c, Reader{text, keys});
  c.padding_id = keys.integer("pad_token_id", 0, max_value).value_or(-1);
  c.finite_mask = keys.boolean("finite_mask", false);
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
  DecoderConfig config;
  if (type == "rotary_decoder") {
    config = read_own(text, keys);
  } else if (const DecoderFamily* family = decoder_family(type)) {
    config = read_family(*family, text, keys);
  } else {
    refuse(Code::MODEL_TYPE, "model_type must be rotary_decoder or one of ", decoder_types(), " but got ",
           type.empty() ? "none" : rotary::files::in_quotes(type));
  }
  check(config);
  return config;
}

}  // namespace rotary_torch
