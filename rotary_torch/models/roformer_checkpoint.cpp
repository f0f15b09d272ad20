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
  RoFormerConfig config = read_roformer_config(dir);
  expect_interleaved(dir);
  Checkpoint file(dir, tensor_names("roformer", config.heads, config.width / config.heads));
  const std::string words = file.name_of("word_embeddings.weight"), decoder = file.name_of("prediction.decoder");
  const std::vector<std::int64_t> matrix{config.vocabulary,
                                         config.embedding_size == 0 ? config.width : config.embedding_size};
  LoadedRoFormer loaded;
  loaded.has_head = file.has_head();
  if (!loaded.has_head) file.expect_no_head(dir, "prediction.dense.weight");
  if (loaded.has_head && config.tied && !file.has(words) && file.has(decoder)) file.share("word_embeddings", decoder);
  // The tensors that bound the vocabulary, the width and the number of layers, before as many layers are made.
  file.expect(file.name_of("word_embeddings.weight"), matrix);
  if (config.layers > 0)
    file.expect(file.name_of("layers." + std::to_string(config.layers - 1) + ".norm.weight"), {config.width});
  if (loaded.has_head && config.tied && file.unties("prediction.decoder", "word_embeddings.weight", matrix))
    config.tied = false;
  loaded.model = file.load([&] { return RoFormer(config, loaded.has_head); });
  loaded.warnings = file.foreign();
  return loaded;
}

}  // namespace rotary_torch
