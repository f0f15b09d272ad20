// DecoderConfig: its names, its rules, the library's own config.json and those of Hugging Face's families.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "models/families.h"
#include "rotary_torch/models/decoder.h"
#include "rotary_torch/op/refusal.h"
#include "text/json.h"

namespace rotary::embedded {
std::string_view decoder_families() noexcept;  // families.json
}

namespace rotary_torch {
namespace {

using rotary::Code;
using rotary::files::Json;
using rotary::files::Object;
using rotary::files::words;
using OrderedJson = nlohmann::ordered_json;

constexpr Refusal refuse_config{"decoder"}, refuse_file{"read_config"};

constexpr std::int64_t max_value = std::int64_t{1} << 40;

const Json& families() {
  static const Json json = rotary::files::parse_json(rotary::embedded::decoder_families());
  return json;
}

constexpr const char* position_names[] = {"rope", "learned", "sinusoidal", "none", "alibi"};
constexpr const char* norm_names[] = {"layer", "rms"};
constexpr const char* residual_names[] = {"sequential", "parallel", "parallel_shared", "post", "notebook"};

// The enumerator of that name, of those up to last.
template <class Word>
std::optional<Word> word_named(std::string_view word, Word last) noexcept {
  for (std::size_t i = 0; i <= static_cast<std::size_t>(last); ++i) {
    if (word == name(static_cast<Word>(i))) return static_cast<Word>(i);
  }
  return std::nullopt;
}

// Calls visit with the key and the value of each field, in the order of the library's own file.
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
  visit("dropout", c.dropout);
}

// Calls read with the fields of every family, RoFormer's too.
template <class Read>
void read_fields(DecoderConfig& c, const Read& read) {
  for_each_field(c, read);
  read("embedding_size", c.embedding_width);
  read("token_types", c.token_types);
  read("masked_head", c.masked_head);
  read("stored_table", c.stored_table);
  read("rotary_value", c.rotary_value);
  read("causal", c.causal);
}

// Reads fields from the keys of an object, by their own words or by a family's; what these do not list is not read.
struct Reader {
  const Object& keys;
  const Json* spellings = nullptr;

  template <class Value>
  void operator()(const char* key, Value& value) const {
    if (spellings == nullptr) return read(key, value);
    const std::string listed = rotary::files::string_of(*spellings, key);
    const std::vector<std::string_view> all = words(listed);
    const auto there = std::find_if(all.begin(), all.end(), [this](auto word) { return keys.has(word); });
    if (there != all.end()) read(*there, value);
  }

 private:
  void read(std::string_view key, std::int64_t& size) const { size = keys.integer(key, 1, max_value).value_or(size); }
  void read(std::string_view key, double& number) const { number = keys.number(key).value_or(number); }
  void read(std::string_view key, bool& on) const { on = keys.boolean(key, on); }
  void read(std::string_view key, PositionEncoding& position) const { word(key, position, PositionEncoding::alibi); }
  void read(std::string_view key, Norm& norm) const { word(key, norm, Norm::rms); }
  void read(std::string_view key, Residual& residual) const { word(key, residual, Residual::notebook); }
  void read(std::string_view key, rotary::Angles& angles) const { word(key, angles, rotary::Angles::float32); }
  void read(std::string_view key, Activation& chosen) const { word(key, chosen, Activation::quick_gelu); }

  // An enumerator up to `last`, by its name; unchanged if there is no such key.
  template <class Word>
  void word(std::string_view key, Word& value, Word last) const {
    const std::optional<std::string> text = keys.text(key);
    if (!text) return;
    std::optional<Word> named = word_named(*text, last);
    if constexpr (std::is_same_v<Word, Activation>) named = activation(*text);  // it has other spellings
    if (!named) keys.refuse(key, "must be a word that this version knows");
    value = *named;
  }
};

const rotary::ModelRope& sole_rope(const rotary::Model& model) {
  refuse_file.unless(model.ropes.size() == 1, Code::ROPE, "a decoder must have one rope for all of its layers but ",
                     model.model_type, " has ", model.ropes.size());
  const rotary::ModelRope& rope = model.ropes.front();
  if (const auto without = layers_without_rope(model, rope.part); !without.empty()) {
    refuse_file(Code::ROPE, "all layers of a ", model.model_type, " must rotate but layer ", without.front(),
                " does not");
  }
  return rope;
}

DecoderConfig read_own(const std::string& text, const Object& keys) {
  DecoderConfig c;
  for_each_field(c, Reader{keys});
  if (c.position == PositionEncoding::rope) c.rope = sole_rope(rotary::parse_config(text));
  c.angles = rotary::Angles::float32;
  Reader{keys}("angles", c.angles);
  const std::vector<int> windows = keys.integers("windows").value_or(std::vector<int>());
  c.windows.assign(windows.begin(), windows.end());
  c.padding_id = keys.integer("pad_token_id", 0, max_value).value_or(-1);
  c.finite_mask = keys.boolean("finite_mask", false);
  return c;
}

// The sliding window of each layer. always: every layer has it; otherwise where use_sliding_window is true the layers
// that layer_types or max_window_layers name. Missing keys have the defaults of transformers' config classes.
std::vector<std::int64_t> windows_of(bool always, const Object& keys, const rotary::ModelPart& part) {
  const bool used = (always || keys.boolean("use_sliding_window", false)) && !keys.is_null("sliding_window");
  const std::int64_t window = used ? keys.integer("sliding_window", 1, max_value).value_or(4096) : 0;
  const std::int64_t full = always ? 0 : keys.integer("max_window_layers", -max_value, max_value).value_or(28);
  std::vector<std::int64_t> windows;
  for (int layer = 0; layer < part.layers; ++layer) {
    const std::string type = part.layer_types.empty() ? "" : part.layer_types[static_cast<std::size_t>(layer)];
    const bool has_type = !always && !type.empty();
    const bool slides = has_type ? type == "sliding_attention" : std::ssize(windows) >= full;
    if (has_type && (slides ? window == 0 : type != "full_attention")) {
      keys.refuse("layer_types",
                  "must name full_attention alone, and sliding_attention where use_sliding_window is true and there is "
                  "a sliding_window");
    }
    windows.push_back(slides ? window : 0);
  }
  return windows;
}

// Whether the architectures name a language model; empty where they name none at all.
std::optional<bool> says_language_model(const Json& json) {
  const auto found = json.find("architectures");
  if (found == json.end() || !found->is_array() || found->empty()) return std::nullopt;
  return std::any_of(found->begin(), found->end(), [](const Json& item) {
    const std::string name = item.is_string() ? item.get<std::string>() : "";
    return name.ends_with("ForCausalLM") || name.ends_with("ForMaskedLM") || name.ends_with("LMHeadModel");
  });
}

DecoderConfig read_family(const std::string& type, const std::string& text, const Object& keys) {
  for (const char* key : {"quantization_config", "per_layer_config", "add_cross_attention"}) {
    const Json* value = keys.value(key);
    if (value != nullptr && *value != false && !value->empty())
      keys.refuse(key, "must be absent (this library does not honour it)");
  }
  if (!keys.boolean("is_causal", true)) keys.refuse("is_causal", "must be true: a decoder sees the past only");
  const Json& family = families().at("models").at(type);
  const Json& names = families().at("names").at(family.at("names").get<std::string>());
  DecoderConfig c;
  c.model_type = type;
  rotary::files::Ledger ledger;
  for (const Json* part : {&names, &family}) {
    const Object values(part->at("config"), "", ledger);
    read_fields(c, Reader{values});
  }
  for (const Json* part : {&names, &family}) read_fields(c, Reader{keys, &part->at("keys")});
  const rotary::Model model = rotary::parse_config(text);
  c.rope = sole_rope(model);
  const rotary::ModelPart& part_of_rope = part_of(model, c.rope->part);
  c.heads = c.rope->heads, c.kv_heads = c.rope->kv_heads, c.head_dim = c.rope->rope.head_dim;
  c.layers = std::ssize(c.rope->layers);
  c.context = part_of_rope.context > 0 ? part_of_rope.context : rotary::files::find_family(type)->context;
  c.angles = c.stored_table ? rotary::Angles::exact : rotary::Angles::float32;
  if (c.feed_forward == 0) c.feed_forward = 4 * c.width;
  if (c.residual == Residual::parallel && !keys.boolean("use_parallel_residual", true))
    c.residual = Residual::sequential;
  c.finite_mask = c.residual == Residual::parallel_shared || c.stored_table;  // GPT-J, RoFormer
  c.padding_id = keys.integer("pad_token_id", -1, max_value).value_or(-1);
  if (const std::string windows = rotary::files::string_of(family, "windows"); !windows.empty())
    c.windows = windows_of(windows == "all_layers", keys, part_of_rope);
  return c;
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
                                    .dropout = c.dropout,
                                    .rotates_values = c.rotary_value});
}

// Throws for values that no model can have (heads that kv_heads do not divide, a window below 0, ...).
static void check(const DecoderConfig& c) {
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"vocabulary", c.vocabulary},     {"width", c.width},    {"layers", c.layers}, {"heads", c.heads},
      {"feed_forward", c.feed_forward}, {"context", c.context}};
  for (const auto& [what, size] : sizes) {
    refuse_config.unless(size >= 1, Code::SHAPE, what, " must be at least 1 but got ", size);
  }
  constexpr std::int64_t max_layers = 10000, max_rows = std::int64_t{1} << 24;
  refuse_config.unless(c.layers <= max_layers, Code::SHAPE, "layers must be at most ", max_layers, " but got ",
                       c.layers);
  refuse_config.unless(!c.stored_table || c.context <= max_rows, Code::SHAPE, "a stored table has at most ", max_rows,
                       " rows but got ", c.context);
  refuse_config.unless(c.dropout >= 0 && c.dropout < 1, Code::CONFIG_VALUE,
                       "dropout must be from 0 to below 1 but got ", c.dropout);
  const std::int64_t head_dim = attention_options(c).head_dim;
  refuse_config.unless((c.position == PositionEncoding::rope) == c.rope.has_value(), Code::ROPE,
                       "a rope must be given where positions are rope, and only there, but they are ",
                       name(c.position));
  refuse_config.unless(!c.rope || c.rope->rope.head_dim == head_dim, Code::SHAPE, "the rope must be for heads of ",
                       head_dim, " elements but is not");
  const auto turns_whole_heads = [&] {
    const rotary::ModelRope& used = *c.rope;
    return used.first == 0 && (used.rope.rotary_dim == 0 || used.rope.rotary_dim == head_dim);
  };
  refuse_config.unless(!c.stored_table || (c.rope && turns_whole_heads()), Code::ROPE,
                       "a stored table must be that of a rope over whole heads but it is not");
  refuse_config.unless(c.position != PositionEncoding::sinusoidal || c.width % 2 == 0, Code::SHAPE,
                       "width must be even for sinusoidal positions but got ", c.width);
  refuse_config.unless(c.windows.empty() || std::ssize(c.windows) == c.layers, Code::SHAPE,
                       "windows must be none or one for each of the ", c.layers, " layers but has ", c.windows.size());
  for (const std::int64_t window : c.windows) {
    refuse_config.unless(window >= 0, Code::CONFIG_VALUE, "a window must be at least 0 (none) but got ", window);
  }
  refuse_config.unless(c.norm_eps >= 0 && std::isfinite(c.norm_eps), Code::CONFIG_VALUE,
                       "norm_eps must be a number from 0 but got ", c.norm_eps);
}

DecoderConfig completed(DecoderConfig config) {
  check(config);
  const AttentionOptions attention = attention_options(config);
  config.kv_heads = attention.kv_heads;
  config.head_dim = attention.head_dim;
  if (config.embedding_width == 0) config.embedding_width = config.width;
  return config;
}

DecoderConfig roformer_base() {
  DecoderConfig c{.model_type = "roformer", .vocabulary = 50000, .width = 768, .layers = 12, .heads = 12};
  c.feed_forward = 3072, c.context = 1536, c.token_types = 2, c.norm_eps = 1e-12, c.dropout = 0.1;
  c.rope.emplace().rope = {.head_dim = 64, .pairing = rotary::Pairing::interleaved};
  c.residual = Residual::post;
  c.tied = c.masked_head = c.stored_table = c.finite_mask = true;
  c.causal = false;
  return c;
}

DecoderConfig notebook_roformer() {
  DecoderConfig c = roformer_base();
  c.vocabulary = 32000, c.layers = c.heads = 4, c.context = 1024, c.token_types = 0;
  c.rope->rope.head_dim = 192, c.rope->rope.base = 1e6;
  c.residual = Residual::notebook;
  c.tied = c.masked_head = c.stored_table = c.head_bias = false;
  return c;
}

// ---- config.json ---------------------------------------------------------------------------------

TensorNames tensor_names(std::string_view model_type, std::int64_t heads, std::int64_t head_dim) {
  const auto family = families().at("models").find(std::string(model_type));
  if (family == families().at("models").end()) return {};
  const Json& row = families().at("names").at(family->at("names").get<std::string>());
  using rotary::files::find_family, rotary::files::Fused;
  const bool fused = find_family(model_type)->attention.fused == Fused::by_head;
  using Map = std::map<std::string, std::string>;
  return {row.at("prefix"),          row.at("inside"), row.value("foreign", ""), row.at("trunk").get<Map>(),
          row.at("head").get<Map>(), heads * head_dim, fused ? heads : 0};
}

DecoderConfig decoder_fields(std::string_view json) {
  const Json fields = rotary::files::parse_json(json);
  rotary::files::Ledger ledger;
  DecoderConfig c;
  read_fields(c, Reader{Object(fields, "", ledger)});
  return c;
}

std::string decoder_config_json(const DecoderConfig& config, std::int64_t parameters) {
  const DecoderConfig c = completed(config);
  refuse_config.unless(
      c.residual < Residual::post &&
          (!c.rope || (c.rope->first == 0 && c.rope->rope.exponent_dim == 0 && !c.rope->rope.clockwise &&
                       c.rope->rope.pairing != rotary::Pairing::interleaved_to_half)),
      Code::ROPE, "config.json takes a decoder whose rope turns the first elements in place and ",
      "counterclockwise but got another model");
  refuse_config.unless(c.causal && !c.rotary_value && !c.stored_table && !c.masked_head && c.token_types == 0 &&
                           c.embedding_width == c.width,
                       Code::CONFIG_VALUE, "config.json takes a causal decoder without rotary_value, stored_table, ",
                       "masked_head, token_types and an embedding_width of its own but got another model");
  OrderedJson json = {{"model_type", "rotary_decoder"}};
  for_each_field(c, [&json](const char* key, const auto& value) {
    if constexpr (std::is_enum_v<std::decay_t<decltype(value)>>) {
      json[key] = name(value);
    } else {
      json[key] = value;
    }
  });
  if (c.rope) {
    json["rope_parameters"] = OrderedJson::parse(rotary::rope_parameters(*c.rope));
    json["rope_interleave"] = c.rope->rope.pairing == rotary::Pairing::interleaved;
    json["angles"] = rotary::name(c.angles);
  }
  if (!c.windows.empty()) json["windows"] = c.windows;
  if (c.padding_id >= 0) json["pad_token_id"] = c.padding_id;
  if (c.finite_mask) json["finite_mask"] = true;
  json["parameters"] = parameters;
  return json.dump(2) + "\n";
}

DecoderConfig read_decoder_config(const std::filesystem::path& dir) {
  const std::string text = rotary::files::json_file_text("read_config", dir / "config.json");
  const Json json = rotary::files::parse_json(text);
  refuse_file.unless(json.is_object(), Code::JSON, "config.json must be an object but is not");
  rotary::files::Ledger ledger;
  const Object keys(json, "", ledger);
  const std::string type = keys.text("model_type").value_or("");
  DecoderConfig config;
  if (type == "rotary_decoder") {
    config = read_own(text, keys);
  } else if (families().at("models").contains(type)) {
    config = read_family(type, text, keys);
  } else {
    std::string types = "rotary_decoder";
    for (const auto& [known, row] : families().at("models").items()) types += ", " + known;
    refuse_config(Code::MODEL_TYPE, "model_type must be one of ", types, " but got ",
                  type.empty() ? "none" : rotary::files::in_quotes(type));
  }
  config.language_model = says_language_model(json);
  check(config);
  return config;
}

}  // namespace rotary_torch
