// RoFormer from Hugging Face's files: config.json and the tensors' names.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>

#include "files/text/io.h"
#include "files/text/json.h"
#include "files/text/json_file.h"
#include "rotary/error.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/roformer.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::files::in_quotes;
using rotary::files::json_file_text;
using rotary::files::Object;

// ---- config.json ----

double rate(const Object& keys, const char* key, double otherwise) {
  const double value = keys.number(key).value_or(otherwise);
  if (!(value >= 0 && value < 1)) keys.refuse(key, "must be from 0 to below 1");
  return value;
}

// Refuses options that transformers supports and this model does not.
void refuse_unsupported(const Object& keys) {
  if (keys.boolean("add_cross_attention", false)) {
    keys.refuse("add_cross_attention", "must be false, there is no cross-attention here,");
  }
  if (keys.has("quantization_config")) keys.refuse("quantization_config", "must not be there");
}

// ---- tensors ----

// The tensors whose Hugging Face names begin with a prefix.
class Names {
 public:
  Names(Checkpoint& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  Names below(const std::string& part) const { return {file_, prefix_ + part}; }
  bool has(const std::string& name) const { return file_.has(prefix_ + name); }
  void expect(const std::string& name, at::IntArrayRef shape) const { file_.expect(prefix_ + name, shape); }
  void into(const std::string& name, const Tensor& parameter) const { file_.read_into(prefix_ + name, parameter); }
  void linear(const std::string& name, const torch::nn::Linear& layer) const {
    into(name + ".weight", layer->weight);
    into(name + ".bias", layer->bias);
  }
  // Old files, converted from TensorFlow, use the names gamma and beta.
  void norm(const std::string& name, const torch::nn::LayerNorm& layer) const {
    into(name + (has(name + ".gamma") ? ".gamma" : ".weight"), layer->weight);
    into(name + (has(name + ".beta") ? ".beta" : ".bias"), layer->bias);
  }

 private:
  Checkpoint& file_;
  std::string prefix_;
};

void load_layer(const Names& names, RoFormerLayerImpl& layer) {
  const std::int64_t width = layer.attention->options().width;
  const Names attention = names.below("attention.");
  constexpr std::array parts = {"query", "key", "value"};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string name = std::string("self.") + parts[i];
    const auto first = static_cast<std::int64_t>(i) * width;
    attention.into(name + ".weight", layer.attention->qkv->weight.narrow(0, first, width));
    attention.into(name + ".bias", layer.attention->qkv->bias.narrow(0, first, width));
  }
  attention.linear("output.dense", layer.attention->output);
  attention.norm("output.LayerNorm", layer.norm);
  names.linear("intermediate.dense", layer.feed_forward->input);
  names.linear("output.dense", layer.feed_forward->output);
  names.norm("output.LayerNorm", layer.feed_forward->norm);
}

void load_trunk(const Names& names, RoFormerImpl& model) {
  const Names embeddings = names.below("embeddings.");
  if (embeddings.has("word_embeddings.weight")) {  // else it is the tied head's
    embeddings.into("word_embeddings.weight", model.word_embeddings->weight);
  }
  embeddings.into("token_type_embeddings.weight", model.token_type_embeddings->weight);
  embeddings.norm("LayerNorm", model.embedding_norm);
  if (model.projection) names.linear("embeddings_project", model.projection);
  const Names encoder = names.below("encoder.");
  // transformers runs with the stored table, so one that was rounded to f16 counts.
  if (encoder.has("embed_positions.weight")) {
    encoder.into("embed_positions.weight", model.position_table->weight);
  }
  for (std::size_t i = 0; i < model.layers->size(); ++i) {
    load_layer(encoder.below("layer." + std::to_string(i) + "."), *model.layers[i]->as<RoFormerLayerImpl>());
  }
}

// A file may have another matrix for a head that the config ties; transformers then uses that matrix.
void load_head(const Names& names, bool tied, bool has_words, RoFormerImpl& model) {
  RoFormerHeadImpl& head = *model.prediction;
  names.linear("transform.dense", head.dense);
  names.norm("transform.LayerNorm", head.norm);
  names.into(!tied || names.has("decoder.bias") ? "decoder.bias" : "bias", head.bias);
  const Tensor& words = model.word_embeddings->weight;
  if (tied && !has_words) {
    names.into("decoder.weight", words);
  } else if (!tied || names.has("decoder.weight")) {
    const Tensor own = at::empty_like(words, words.options().requires_grad(false));
    names.into("decoder.weight", own);
    if (!tied || !at::equal(own, words)) head.untie(own);
  }
}

// Checks, before a model of the config's sizes allocates memory, that the file has the tensors that bound each size.
// words: the name of the word embeddings, or of the tied head's matrix.
void expect_sizes(const Checkpoint& file, const std::string& words, const Names& names, const RoFormerConfig& c) {
  const std::int64_t embedding = c.embedding_size == 0 ? c.width : c.embedding_size;
  file.expect(words, {c.vocabulary, embedding});
  names.expect("embeddings.token_type_embeddings.weight", {c.token_types, embedding});
  if (embedding != c.width) names.expect("embeddings_project.weight", {c.width, embedding});
  if (c.layers == 0) return;
  names.expect("encoder.layer.0.attention.self.query.weight", {c.width, c.width});
  names.expect("encoder.layer.0.intermediate.dense.weight", {c.feed_forward, c.width});
  names.expect("encoder.layer." + std::to_string(c.layers - 1) + ".output.dense.weight", {c.width, c.feed_forward});
}

bool begins_with_any(const std::string& name, std::initializer_list<const char*> prefixes) {
  for (const char* prefix : prefixes) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

// Whether an unused tensor is inside the trunk or language-model head, where it is an error; elsewhere it is a warning.
bool is_ours(const std::string& name, const std::string& prefix) {
  if (name.starts_with(prefix + "pooler.")) return false;
  return begins_with_any(name, {"roformer.", "cls.predictions."}) ||
         (prefix.empty() && begins_with_any(name, {"embeddings.", "encoder.", "embeddings_project."}));
}

std::vector<std::string> judge_unused(const Checkpoint& file, const std::string& prefix) {
  std::vector<std::string> warnings;
  for (const std::string& name : file.unused()) {
    if (is_buffer(name) || name == "cls.predictions.bias") continue;  // the latter equals decoder.bias
    if (is_ours(name, prefix)) {
      throw rotary::Error(rotary::Code::TENSOR,
                          "[roformer] the trunk and the language-model head must have no other tensors but " +
                              in_quotes(name) + " is in the file");
    }
    warnings.push_back("tensor " + in_quotes(name) + " is not part of the model and not used");
  }
  return warnings;
}

// Whether architectures names a language model.
bool says_language_model(const std::filesystem::path& dir) {
  const rotary::files::Json json = rotary::files::parse_json(json_file_text("roformer", dir / "config.json"));
  const auto found = json.find("architectures");
  if (found == json.end() || !found->is_array()) return false;
  return std::any_of(found->begin(), found->end(), [](const rotary::files::Json& item) {
    const std::string name = item.is_string() ? item.get<std::string>() : "";
    return name.ends_with("ForMaskedLM") || name.ends_with("ForCausalLM");
  });
}

// RoFormer's own pairing; weights that rotary convert brought to the other one say so in their metadata.
void expect_interleaved(const std::filesystem::path& dir) {
  rotary::Model model = rotary::read_config(dir);
  rotary::apply_weights(model, dir);
  for (const rotary::ModelRope& used : model.ropes) {
    if (used.rope.pairing == rotary::Pairing::interleaved) continue;
    throw rotary::Error(rotary::Code::PAIRING, "[roformer] the weights must be interleaved but their metadata say " +
                                                   std::string(rotary::name(used.rope.pairing)) +
                                                   ": rotary convert --to interleaved");
  }
}

}  // namespace

RoFormerConfig read_roformer_config(const std::filesystem::path& dir) {
  const rotary::Model known = rotary::read_config(dir);  // refuses an invalid rope
  if (known.model_type != "roformer") {
    throw rotary::Error(rotary::Code::MODEL_TYPE,
                        "[roformer] model_type must be roformer but got " + in_quotes(known.model_type));
  }
  const rotary::files::Json json = rotary::files::parse_json(json_file_text("roformer", dir / "config.json"));
  rotary::files::Ledger ledger;
  const Object keys(json, "", ledger);
  refuse_unsupported(keys);
  constexpr std::int64_t max_value = std::numeric_limits<std::int32_t>::max();
  // max_rows: of the position table, which is allocated whole.
  constexpr std::int64_t max_layers = 10000, max_rows = std::int64_t{1} << 24;
  RoFormerConfig config;
  const auto size = [&](const char* key, std::int64_t& value) {
    value = keys.integer(key, 1, max_value).value_or(value);
  };
  size("vocab_size", config.vocabulary);
  size("embedding_size", config.embedding_size);
  size("hidden_size", config.width);
  config.layers = keys.integer("num_hidden_layers", 0, max_layers).value_or(config.layers);
  size("num_attention_heads", config.heads);
  size("intermediate_size", config.feed_forward);
  config.context = keys.integer("max_position_embeddings", 1, max_rows).value_or(config.context);
  size("type_vocab_size", config.token_types);
  if (const std::optional<std::string> word = keys.text("hidden_act")) {
    const std::optional<Activation> found = activation(*word);
    if (!found) keys.refuse("hidden_act", "must be an activation that is known here");
    config.activation = *found;
  }
  config.norm_eps = keys.number("layer_norm_eps").value_or(config.norm_eps);
  if (!(config.norm_eps >= 0)) keys.refuse("layer_norm_eps", "must not be negative");
  config.dropout = rate(keys, "hidden_dropout_prob", config.dropout);
  config.attention_dropout = rate(keys, "attention_probs_dropout_prob", config.attention_dropout);
  config.rotary_value = keys.boolean("rotary_value", false);
  config.is_decoder = keys.boolean("is_decoder", false);
  config.tied = keys.boolean("tie_word_embeddings", true);
  check(config);
  return config;
}

LoadedRoFormer load_roformer(const std::filesystem::path& dir) {
  const RoFormerConfig config = read_roformer_config(dir);
  expect_interleaved(dir);
  Checkpoint file(dir);
  std::string prefix;
  LoadedRoFormer loaded;
  for (const std::string& name : file.unused()) {  // all tensors, as none has been read
    if (name.starts_with("roformer.")) prefix = "roformer.";
    if (name.starts_with("cls.predictions.")) loaded.has_head = true;
  }
  const Names names(file, prefix);
  const std::string words = prefix + "embeddings.word_embeddings.weight", decoder = "cls.predictions.decoder.weight";
  const bool has_words = file.has(words);
  const bool words_from_head = !has_words && loaded.has_head && config.tied && file.has(decoder);
  expect_sizes(file, words_from_head ? decoder : words, names, config);
  if (!loaded.has_head && !prefix.empty() && says_language_model(dir)) {
    throw rotary::Error(rotary::Code::TENSOR,
                        "[roformer] architectures in config.json names a language model but the file has no "
                        "head \"cls.predictions.transform.dense.weight\"");
  }
  loaded.model = RoFormer(config, loaded.has_head);
  load_trunk(names, *loaded.model);
  if (loaded.has_head) load_head({file, "cls.predictions."}, config.tied, has_words, *loaded.model);
  loaded.warnings = judge_unused(file, prefix);
  loaded.model->eval();
  return loaded;
}

}  // namespace rotary_torch
