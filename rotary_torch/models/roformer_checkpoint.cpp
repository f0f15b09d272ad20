// RoFormer from Hugging Face's files: config.json and the tensors' names.
#include <ATen/ATen.h>

#include <limits>
#include <string>
#include <string_view>

#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/roformer.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;
using rotary::files::in_quotes;
using rotary::files::Object;

constexpr Refusal refuse{"roformer"};

// ---- config.json ----

constexpr std::int64_t max_value = std::numeric_limits<std::int32_t>::max();

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

// Lists the parameters of a part of the model, whose tensors' names begin with a prefix.
class Part {
 public:
  Part(const Checkpoint& file, std::vector<Stored>& rows, std::string prefix)
      : file_(file), rows_(rows), prefix_(std::move(prefix)) {}

  Part below(const std::string& part) const { return {file_, rows_, prefix_ + part}; }
  bool has(const std::string& name) const { return file_.has(prefix_ + name); }
  void add(const std::string& name, const Tensor& parameter) const { rows_.push_back({prefix_ + name, parameter}); }
  void linear(const std::string& name, const torch::nn::Linear& layer, std::int64_t first = 0,
              std::int64_t count = -1) const {
    add_linear(rows_, prefix_ + name, layer, first, count);
  }
  // Old files, converted from TensorFlow, use the names gamma and beta.
  void norm(const std::string& name, const torch::nn::LayerNorm& layer) const {
    add(name + (has(name + ".gamma") ? ".gamma" : ".weight"), layer->weight);
    add(name + (has(name + ".beta") ? ".beta" : ".bias"), layer->bias);
  }

 private:
  const Checkpoint& file_;
  std::vector<Stored>& rows_;
  std::string prefix_;
};

void add_layer(const Part& part, const RoFormerLayerImpl& layer) {
  const std::int64_t width = layer.attention->options().width;
  const Part attention = part.below("attention.");
  attention.linear("self.query", layer.attention->qkv, 0, width);
  attention.linear("self.key", layer.attention->qkv, width, width);
  attention.linear("self.value", layer.attention->qkv, 2 * width, width);
  attention.linear("output.dense", layer.attention->output);
  attention.norm("output.LayerNorm", layer.norm);
  part.linear("intermediate.dense", layer.feed_forward->input);
  part.linear("output.dense", layer.feed_forward->output);
  part.norm("output.LayerNorm", layer.feed_forward->norm);
}

void add_trunk(const Part& trunk, const RoFormerImpl& model) {
  const Part embeddings = trunk.below("embeddings."), encoder = trunk.below("encoder.");
  embeddings.add("token_type_embeddings.weight", model.token_type_embeddings->weight);
  embeddings.norm("LayerNorm", model.embedding_norm);
  if (model.projection) trunk.linear("embeddings_project", model.projection);
  // transformers runs with the stored table, so one that was rounded to f16 counts.
  if (encoder.has("embed_positions.weight")) encoder.add("embed_positions.weight", model.position_table->weight);
  for (std::size_t i = 0; i < model.layers->size(); ++i) {
    add_layer(encoder.below("layer." + std::to_string(i) + "."), model.layers->at<RoFormerLayerImpl>(i));
  }
}

void add_head(const Part& part, const RoFormerHeadImpl& head, bool tied) {
  part.linear("transform.dense", head.dense);
  part.norm("transform.LayerNorm", head.norm);
  part.add(!tied || part.has("decoder.bias") ? "decoder.bias" : "bias", head.bias);
  if (!tied) part.add("decoder.weight", head.decoder);
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
      refuse(Code::TENSOR, "the trunk and the language-model head must have no other tensors but ", in_quotes(name),
             " is in the file");
    }
    warnings.push_back("tensor " + in_quotes(name) + " is not part of the model and not used");
  }
  return warnings;
}

// RoFormer's own pairing; weights that rotary convert brought to the other one say so in their metadata.
void expect_interleaved(const std::filesystem::path& dir) {
  rotary::Model model = rotary::read_config(dir);
  rotary::apply_weights(model, dir);
  for (const rotary::ModelRope& used : model.ropes) {
    if (used.rope.pairing == rotary::Pairing::interleaved) continue;
    refuse(Code::PAIRING, "the weights must be interleaved but their metadata say ", rotary::name(used.rope.pairing),
           ": rotary convert --to interleaved");
  }
}

}  // namespace

RoFormerConfig read_roformer_config(const std::filesystem::path& dir) {
  const rotary::Model known = rotary::read_config(dir);  // refuses an invalid rope
  if (known.model_type != "roformer") {
    refuse(Code::MODEL_TYPE, "model_type must be roformer but got ", in_quotes(known.model_type));
  }
  const rotary::files::Json json =
      rotary::files::parse_json(rotary::files::json_file_text("roformer", dir / "config.json"));
  rotary::files::Ledger ledger;
  const Object keys(json, "", ledger);
  refuse_unsupported(keys);
  // max_rows: of the position table, which is allocated whole.
  constexpr std::int64_t max_layers = 10000, max_rows = std::int64_t{1} << 24;
  RoFormerConfig config;
  const auto size = [&](const char* key, std::int64_t& value, std::int64_t least = 1, std::int64_t most = max_value) {
    value = keys.integer(key, least, most).value_or(value);
  };
  size("vocab_size", config.vocabulary);
  size("embedding_size", config.embedding_size);
  size("hidden_size", config.width);
  size("num_hidden_layers", config.layers, 0, max_layers);
  size("num_attention_heads", config.heads);
  size("intermediate_size", config.feed_forward);
  size("max_position_embeddings", config.context, 1, max_rows);
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
  const std::string words = prefix + "embeddings.word_embeddings.weight", decoder = "cls.predictions.decoder.weight";
  const bool words_from_head = !file.has(words) && loaded.has_head && config.tied && file.has(decoder);
  const auto rows_of = [&](const RoFormerImpl& model) {
    std::vector<Stored> rows = {{words_from_head ? decoder : words, model.word_embeddings->weight}};
    add_trunk({file, rows, prefix}, model);
    if (loaded.has_head) add_head({file, rows, "cls.predictions."}, *model.prediction, config.tied);
    return rows;
  };
  // The tensors that bound the vocabulary, the width and the number of layers, before as many layers are made.
  file.expect(words_from_head ? decoder : words,
              {config.vocabulary, config.embedding_size == 0 ? config.width : config.embedding_size});
  if (config.layers > 0) {
    file.expect(prefix + "encoder.layer." + std::to_string(config.layers - 1) + ".attention.self.query.weight",
                {config.width, config.width});
  }
  if (!loaded.has_head && !prefix.empty() && says_language_model(dir).value_or(false)) {
    refuse(Code::TENSOR,
           "architectures in config.json names a language model but the file has no head "
           "\"cls.predictions.transform.dense.weight\"");
  }
  loaded.model = file.load([&] { return RoFormer(config, loaded.has_head); }, rows_of);
  if (loaded.has_head && config.tied && !words_from_head && file.has(decoder)) {
    // A file may have another matrix for a head that the config ties; transformers then uses that matrix.
    const Tensor& shared = loaded.model->word_embeddings->weight;
    const Tensor own = file.read(decoder, shared.sizes());
    if (!at::equal(own, shared)) loaded.model->prediction->untie(own);
  }
  loaded.warnings = judge_unused(file, prefix);
  return loaded;
}

}  // namespace rotary_torch
