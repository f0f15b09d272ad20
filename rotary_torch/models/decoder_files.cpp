// Reads a Decoder from a folder and writes it to one, with the library's own names or those of a family.
#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "files/models/families.h"
#include "files/text/io.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/decoder.h"
#include "rotary_torch/models/decoder_layers.h"
#include "rotary_torch/models/families.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;
using rotary::files::in_quotes;
using rotary::files::words;
namespace fs = std::filesystem;

constexpr Refusal refuse{"load_decoder"};

// Tables that the files of some families also contain; the decoder computes them.
constexpr std::string_view own_buffers[] = {"attn.bias", "embed_positions.weight", "embed_positions"};

// ---- the tensors of a family ---------------------------------------------------------------------

class FamilyFile {
 public:
  FamilyFile(Checkpoint& file, const DecoderFamily& names) : file_(file), names_(names) {
    const std::vector<std::string> all = file.unused();
    for (const std::string_view prefix : {names.prefix, std::string_view("transformer.")}) {
      const std::string layers = std::string(prefix) + std::string(names.layers) + ".";
      const bool has = std::any_of(all.begin(), all.end(), [&](const auto& name) { return name.starts_with(layers); });
      if (has && prefix_.empty()) prefix_ = prefix;  // "transformer.": question answering heads, whatever the family
    }
    for (const std::string_view name : words(names.heads)) {
      if (head_.empty() && file.has(std::string(name) + ".weight")) head_ = name;
    }
  }

  const std::string& head() const noexcept { return head_; }
  bool is_base() const noexcept { return prefix_.empty(); }

  // The tensors that bound the vocabulary, the width and the number of layers.
  void expect_sizes(const DecoderConfig& c) const {
    file_.expect(trunk(names_.embedding) + ".weight", {c.vocabulary, c.width});
    file_.expect(layer(c.layers - 1) + std::string(names_.attention_norm) + ".weight", {c.width});
  }

  // Whether the head is tied in the config but the file has another matrix for it, which is then used, as in
  // transformers.
  bool head_differs(const DecoderConfig& c) {
    const std::vector<std::int64_t> shape{c.vocabulary, c.width};
    return !at::equal(file_.read(head_ + ".weight", shape), file_.read(trunk(names_.embedding) + ".weight", shape));
  }

  std::vector<Stored> rows(const DecoderImpl& model) const {
    std::vector<Stored> rows = {{trunk(names_.embedding) + ".weight", model.embedding->weight}};
    for (std::size_t i = 0; i < model.layers->size(); ++i) {
      add_layer(rows, model.layers->at<DecoderLayerImpl>(i), model.config(), layer(static_cast<std::int64_t>(i)));
    }
    add_norm(rows, trunk(names_.final_norm), model.final_norm);
    if (model.head) add_linear(rows, head_, model.head);
    const std::string_view head = words(names_.heads).front();  // for a tied head the file may have only the bias
    if (model.head_bias.defined()) rows.push_back({std::string(head) + ".bias", model.head_bias});
    return rows;
  }

  // The tensors outside the trunk that are not used; an unused one in the trunk is an error.
  std::vector<std::string> foreign() const {
    std::vector<std::string> names;
    const std::vector<std::string_view> trunk_words = words(names_.trunk);
    for (const std::string& name : file_.unused()) {
      if (is_buffer(name, own_buffers)) continue;
      const std::string_view first = std::string_view(name).substr(0, name.find('.'));
      const bool in_trunk = (!prefix_.empty() && name.starts_with(prefix_)) ||
                            std::find(trunk_words.begin(), trunk_words.end(), first) != trunk_words.end();
      if (in_trunk) refuse(Code::TENSOR, "the model that config.json describes has no ", in_quotes(name));
      names.push_back(name);
    }
    return names;
  }

 private:
  std::string trunk(std::string_view name) const { return prefix_ + std::string(name); }
  std::string layer(std::int64_t number) const { return trunk(names_.layers) + "." + std::to_string(number) + "."; }

  static void add_norm(std::vector<Stored>& rows, const std::string& name, const NormModule& norm) {
    rows.push_back({name + ".weight", norm.rms ? norm.rms->weight : norm.layer->weight});
    if (norm.layer) rows.push_back({name + ".bias", norm.layer->bias});
  }

  void add_layer(std::vector<Stored>& rows, const DecoderLayerImpl& layer, const DecoderConfig& c,
                 const std::string& prefix) const {
    const auto name = [&](std::string_view part) { return prefix + std::string(part); };
    const MultiHeadAttentionImpl& attention = *layer.attention;
    const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
    add_norm(rows, name(names_.attention_norm), layer.attention_norm);
    if (!names_.feed_norm.empty()) add_norm(rows, name(names_.feed_norm), layer.feed_norm);
    if (!names_.fused.empty()) {
      add_linear(rows, name(names_.fused), attention.qkv, 0, 3 * q, c.heads);
    } else {
      add_linear(rows, name(names_.q), attention.qkv, 0, q);
      add_linear(rows, name(names_.k), attention.qkv, q, kv);
      add_linear(rows, name(names_.v), attention.qkv, q + kv, kv);
    }
    if (attention.q_norm) {
      rows.push_back({name("self_attn.q_norm.weight"), attention.q_norm->weight});
      rows.push_back({name("self_attn.k_norm.weight"), attention.k_norm->weight});
    }
    add_linear(rows, name(names_.output), attention.output);
    if (c.gated) add_linear(rows, name(names_.gate), layer.feed->up, 0, c.feed_forward);
    add_linear(rows, name(names_.up), layer.feed->up, c.gated ? c.feed_forward : 0, c.feed_forward);
    add_linear(rows, name(names_.down), layer.feed->down);
  }

  Checkpoint& file_;
  const DecoderFamily& names_;
  std::string prefix_;
  std::string head_;
};

LoadedDecoder load_family(const fs::path& dir, DecoderConfig config, const DecoderFamily& family) {
  Checkpoint checkpoint(dir);
  FamilyFile file(checkpoint, family);
  LoadedDecoder loaded;
  file.expect_sizes(config);
  const std::optional<bool> language_model = says_language_model(dir);
  config.head = !file.head().empty() || (config.tied && !file.is_base() && language_model.value_or(true));
  if (!config.head && !config.tied && !file.is_base() && language_model.value_or(false)) {
    refuse(Code::TENSOR, "architectures in config.json names a language model but the file has no head ",
           in_quotes(std::string(words(family.heads).front()) + ".weight"));
  }
  if (config.head && config.tied && !file.head().empty() && file.head_differs(config)) {
    config.tied = false;
    loaded.warnings.push_back("tie_word_embeddings is true but the head in the file is another matrix: it is used");
  }
  loaded.model = checkpoint.load([&] { return Decoder(config); }, [&](const auto& model) { return file.rows(model); });
  loaded.has_head = config.head;
  for (const std::string& name : file.foreign()) {
    loaded.warnings.push_back("the file has " + in_quotes(name) + " outside the model: not used");
  }
  return loaded;
}

LoadedDecoder load_own(const fs::path& dir, const DecoderConfig& config) {
  Checkpoint checkpoint(dir);
  const auto tensors = static_cast<std::int64_t>(checkpoint.unused().size());
  if (config.layers > tensors) {
    refuse(Code::TENSOR, "config.json has ", config.layers, " layers but the file only ", tensors, " tensors");
  }
  LoadedDecoder loaded;
  loaded.has_head = config.head;
  loaded.model = checkpoint.load([&] { return Decoder(config); },
                                 [](const DecoderImpl& model) {
                                   std::vector<Stored> rows;
                                   for (const auto& item : model.named_parameters())
                                     rows.push_back({item.key(), item.value()});
                                   return rows;
                                 });
  const std::vector<std::string> unused = checkpoint.unused();
  if (!unused.empty()) {
    refuse(Code::TENSOR, "the model that config.json describes has no ", in_quotes(unused.front()));
  }
  return loaded;
}

}  // namespace

LoadedDecoder load_decoder(const fs::path& dir) {
  const DecoderConfig config = read_decoder_config(dir);
  const DecoderFamily* family = decoder_family(config.model_type);
  return family != nullptr ? load_family(dir, config, *family) : load_own(dir, config);
}

void save_decoder(const DecoderImpl& model, const fs::path& dir) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& item : model.named_parameters()) tensors.emplace_back(item.key(), item.value());
  write_tensors(dir / "model.safetensors", tensors, {{"format", "pt"}});
  rotary::files::write_whole("save_decoder", dir / "config.json",
                             decoder_config_json(model.config(), parameter_count(model)));
}

}  // namespace rotary_torch
