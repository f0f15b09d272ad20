// DecoderConfig: its names, its rules, and the library's own config.json.
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/text/io.h"
#include "files/text/json.h"
#include "files/text/json_file.h"
#include "rotary/config.h"
#include "rotary_torch/models/decoder.h"
#include "rotary_torch/models/families.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using rotary::Code;
using rotary::files::Json;
using rotary::files::json_file_text;
using rotary::files::Object;
using OrderedJson = nlohmann::ordered_json;

constexpr Refusal refuse{"decoder"};

constexpr const char* position_names[] = {"rope", "learned", "sinusoidal", "none", "alibi"};
constexpr const char* norm_names[] = {"layer", "rms"};
constexpr const char* residual_names[] = {"sequential", "parallel", "parallel_shared"};

template <class Word, std::size_t n>
std::optional<Word> word(const char* const (&names)[n], std::string_view name) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    if (name == names[i]) return static_cast<Word>(i);
  }
  return std::nullopt;
}

}  // namespace

const char* name(PositionEncoding p) noexcept { return position_names[static_cast<std::size_t>(p)]; }
const char* name(Norm n) noexcept { return norm_names[static_cast<std::size_t>(n)]; }
const char* name(Residual r) noexcept { return residual_names[static_cast<std::size_t>(r)]; }
std::optional<PositionEncoding> position_encoding(std::string_view name) noexcept {
  return word<PositionEncoding>(position_names, name);
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

// ---- writing the library's own config.json -------------------------------------------------------

namespace {

void put_rope(OrderedJson& json, const DecoderConfig& c) {
  const rotary::ModelRope& rope = *c.rope;
  if (rope.first != 0 || !rope.rope.axis.empty() || !rope.rope.index.empty() || rope.rope.exponent_dim != 0 ||
      rope.rope.pairing == rotary::Pairing::interleaved_to_half || rope.rope.clockwise || !rope.rope.inv_freq.empty() ||
      !rope.rope.multiplier.empty()) {
    refuse(Code::ROPE,
           "config.json takes a rope that turns the first elements in place and counterclockwise along one axis, by "
           "computed frequencies, but got another");
  }
  json["rope_parameters"] = OrderedJson::parse(rotary::rope_parameters(rope));
  json["rope_interleave"] = rope.rope.pairing == rotary::Pairing::interleaved;
  json["angles"] = rotary::name(c.angles);
}

}  // namespace

std::string decoder_config_json(const DecoderConfig& c, std::int64_t parameters) {
  OrderedJson json;
  json["model_type"] = "rotary_decoder";
  json["vocab_size"] = c.vocabulary;
  json["hidden_size"] = c.width;
  json["num_hidden_layers"] = c.layers;
  json["num_attention_heads"] = c.heads;
  json["num_key_value_heads"] = c.kv_heads == 0 ? c.heads : c.kv_heads;
  json["head_dim"] = c.head_dim == 0 ? c.width / c.heads : c.head_dim;
  json["intermediate_size"] = c.feed_forward;
  json["max_position_embeddings"] = c.context;
  json["position_embedding_type"] = name(c.position);
  if (c.rope) put_rope(json, c);
  json["norm"] = name(c.norm);
  json["norm_eps"] = c.norm_eps;
  json["hidden_act"] = name(c.activation);
  json["gated"] = c.gated;
  json["qkv_bias"] = c.qkv_bias;
  json["output_bias"] = c.output_bias;
  json["feed_bias"] = c.feed_bias;
  json["head_bias"] = c.head_bias;
  json["qk_norm"] = c.qk_norm;
  json["head"] = c.head;
  json["tie_word_embeddings"] = c.tied;
  json["residual"] = name(c.residual);
  if (!c.windows.empty()) json["windows"] = c.windows;
  json["dropout"] = c.dropout;
  if (c.padding_id >= 0) json["pad_token_id"] = c.padding_id;
  if (c.finite_mask) json["finite_mask"] = true;
  json["parameters"] = parameters;
  return json.dump(2) + "\n";
}

// ---- reading the library's own config.json -------------------------------------------------------

namespace {

constexpr std::int64_t max_value = std::int64_t{1} << 40;

std::int64_t size(const Object& keys, const char* key) {
  const auto value = keys.integer(key, 1, max_value);
  if (!value) refuse(Code::CONFIG_MISSING, "config.json must have ", key, " but has none");
  return *value;
}

// Parses the word of a key with `read`.
template <class Read>
auto word_of(const Object& keys, const char* key, const char* otherwise, const Read& read) {
  const auto value = read(keys.text(key).value_or(otherwise));
  if (!value) keys.refuse(key, "must be a word that this version knows");
  return *value;
}

template <class Word, std::size_t n>
Word word_of(const Object& keys, const char* key, const char* const (&names)[n]) {
  return word_of(keys, key, names[0], [&](const std::string& name) { return word<Word>(names, name); });
}

std::optional<rotary::Angles> angles(const std::string& name) {
  try {
    return rotary::parse_angles(name);
  } catch (const rotary::Error&) {
    return std::nullopt;  // the caller's sentence names the key
  }
}

DecoderConfig read_own(const std::string& text, const Object& keys) {
  DecoderConfig c;
  c.vocabulary = size(keys, "vocab_size");
  c.width = size(keys, "hidden_size");
  c.layers = size(keys, "num_hidden_layers");
  c.heads = size(keys, "num_attention_heads");
  c.kv_heads = size(keys, "num_key_value_heads");
  c.head_dim = size(keys, "head_dim");
  c.feed_forward = size(keys, "intermediate_size");
  c.context = size(keys, "max_position_embeddings");
  c.position = word_of<PositionEncoding>(keys, "position_embedding_type", position_names);
  c.angles = word_of(keys, "angles", rotary::name(rotary::Angles::exact), angles);
  if (c.position == PositionEncoding::rope) c.rope = sole_rope(rotary::parse_config(text));
  c.norm = word_of<Norm>(keys, "norm", norm_names);
  c.norm_eps = keys.number("norm_eps").value_or(c.norm_eps);
  c.activation = word_of(keys, "hidden_act", "gelu", [](const std::string& said) { return activation(said); });
  const std::pair<const char*, bool*> switches[] = {{"gated", &c.gated},
                                                    {"qkv_bias", &c.qkv_bias},
                                                    {"output_bias", &c.output_bias},
                                                    {"feed_bias", &c.feed_bias},
                                                    {"qk_norm", &c.qk_norm},
                                                    {"head", &c.head},
                                                    {"tie_word_embeddings", &c.tied},
                                                    {"head_bias", &c.head_bias},
                                                    {"finite_mask", &c.finite_mask}};
  for (const auto& [key, target] : switches) *target = keys.boolean(key).value_or(*target);
  c.residual = word_of<Residual>(keys, "residual", residual_names);
  for (const int window : keys.integers("windows").value_or(std::vector<int>())) c.windows.push_back(window);
  c.dropout = keys.number("dropout").value_or(0);
  c.padding_id = keys.integer("pad_token_id", 0, max_value).value_or(-1);
  return c;
}

}  // namespace

DecoderConfig read_decoder_config(const std::filesystem::path& dir) {
  const std::string text = json_file_text("read_config", dir / "config.json");
  const Json json = rotary::files::parse_json(text);
  if (!json.is_object()) refuse(Code::JSON, "config.json must be an object but is ", rotary::files::shown(json));
  rotary::files::Ledger ledger;
  const Object keys(json, "", ledger);
  const std::string type = keys.text("model_type").value_or("");
  DecoderConfig config;
  if (type == "rotary_decoder") {
    config = read_own(text, keys);
  } else if (const Family* family = decoder_family(type)) {
    config = read_family(*family, text, keys);
  } else {
    refuse(Code::MODEL_TYPE, "model_type must be rotary_decoder or one of ", decoder_families(), " but got ",
           type.empty() ? "none" : rotary::files::in_quotes(type));
  }
  check(config);
  return config;
}

}  // namespace rotary_torch
