// Reads a Decoder from a folder and writes it to one, with the library's own names or those of the families.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "files/text/io.h"
#include "files/text/json_file.h"
#include "rotary/error.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/decoder.h"
#include "rotary_torch/models/decoder_layers.h"
#include "rotary_torch/models/families.h"
#include "rotary_torch/models/meta_device.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;
using rotary::files::in_quotes;
using rotary::files::json_file_text;
namespace fs = std::filesystem;

[[noreturn]] void refuse(Code code, const std::string& sentence) {
  throw rotary::Error(code, "[load_decoder] " + sentence);
}

std::vector<std::string_view> words(std::string_view list) {
  std::vector<std::string_view> found;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(' ', begin), list.size());
    found.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

// Tables that the files of some families also contain; the decoder computes them.
constexpr std::string_view own_buffers[] = {"attn.bias", "embed_positions.weight", "embed_positions"};

// ---- the tensors of a family ---------------------------------------------------------------------

class FamilyFile {
 public:
  FamilyFile(Checkpoint& file, const TensorNames& names) : file_(file), names_(names) {
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

  // Checks, before a model of the config's sizes allocates memory, that the file has the tensors that bound each size.
  void expect_sizes(const DecoderConfig& c) const {
    file_.expect(trunk(names_.embedding) + ".weight", {c.vocabulary, c.width});
    const auto weight = [&](std::int64_t layer, std::string_view part) {
      return trunk(names_.layers) + "." + std::to_string(layer) + "." + std::string(part) + ".weight";
    };
    const std::int64_t q = c.heads * c.head_dim;
    if (!names_.fused.empty()) {
      file_.expect(weight(0, names_.fused), {3 * q, c.width});
    } else {
      file_.expect(weight(0, names_.q), {q, c.width});
      file_.expect(weight(0, names_.k), {c.kv_heads * c.head_dim, c.width});
    }
    file_.expect(weight(0, c.gated ? names_.gate : names_.up), {c.feed_forward, c.width});
    file_.expect(weight(c.layers - 1, names_.attention_norm), {c.width});
  }

  // Whether the head is tied in the config but the file has another matrix for it, which is then used, as in
  // transformers.
  bool head_differs(const DecoderConfig& c) {
    const std::vector<std::int64_t> shape{c.vocabulary, c.width};
    return !at::equal(file_.read(head_ + ".weight", shape), file_.read(trunk(names_.embedding) + ".weight", shape));
  }

  void load(DecoderImpl& model) {
    const at::NoGradGuard no_grad;
    file_.read_into(trunk(names_.embedding) + ".weight", model.embedding->weight);
    for (std::size_t i = 0; i < model.layers->size(); ++i) {
      load_layer(model.layers->at<DecoderLayerImpl>(i), model.config(),
                 trunk(names_.layers) + "." + std::to_string(i) + ".");
    }
    norm(model.final_norm, trunk(names_.final_norm));
    if (model.head) linear(*model.head, head_);
    const std::string_view head = words(names_.heads).front();  // for a tied head the file may have only the bias
    if (model.head_bias.defined()) file_.read_into(std::string(head) + ".bias", model.head_bias);
  }

  // An unused tensor is an error in the trunk and a warning elsewhere.
  std::vector<std::string> foreign() const {
    std::vector<std::string> names;
    const std::vector<std::string_view> trunk_words = words(names_.trunk);
    for (const std::string& name : file_.unused()) {
      if (is_buffer(name, own_buffers)) continue;
      const std::string_view first = std::string_view(name).substr(0, name.find('.'));
      const bool in_trunk = (!prefix_.empty() && name.starts_with(prefix_)) ||
                            std::find(trunk_words.begin(), trunk_words.end(), first) != trunk_words.end();
      if (in_trunk) refuse(Code::TENSOR, "the model that config.json describes has no " + in_quotes(name));
      names.push_back(name);
    }
    return names;
  }

 private:
  std::string trunk(std::string_view name) const { return prefix_ + std::string(name); }

  void norm(NormModule& norm, const std::string& name) {
    if (norm.rms) return file_.read_into(name + ".weight", norm.rms->weight);
    file_.read_into(name + ".weight", norm.layer->weight);
    file_.read_into(name + ".bias", norm.layer->bias);
  }

  // Reads rows [first, first + count) of a linear layer.
  void rows(torch::nn::LinearImpl& layer, std::int64_t first, std::int64_t count, const std::string& name) {
    file_.read_into(name + ".weight", layer.weight.narrow(0, first, count));
    if (layer.bias.defined()) file_.read_into(name + ".bias", layer.bias.narrow(0, first, count));
  }
  void linear(torch::nn::LinearImpl& layer, const std::string& name) { rows(layer, 0, layer.weight.size(0), name); }

  // Reorders rows from [heads][q, k, v][head_dim] to [q, k, v][heads][head_dim].
  void fused(torch::nn::LinearImpl& layer, const DecoderConfig& c, const std::string& name) {
    const auto sorted = [&](const std::string& tensor, const Tensor& like) {
      const Tensor mixed = file_.read(tensor, like.sizes());
      return mixed.view({c.heads, 3, c.head_dim, -1}).transpose(0, 1).reshape(like.sizes());
    };
    layer.weight.copy_(sorted(name + ".weight", layer.weight));
    if (layer.bias.defined()) layer.bias.copy_(sorted(name + ".bias", layer.bias));
  }

  void load_layer(DecoderLayerImpl& layer, const DecoderConfig& c, const std::string& prefix) {
    const auto name = [&](std::string_view part) { return prefix + std::string(part); };
    norm(layer.attention_norm, name(names_.attention_norm));
    if (!names_.feed_norm.empty()) norm(layer.feed_norm, name(names_.feed_norm));
    MultiHeadAttentionImpl& attention = *layer.attention;
    if (!names_.fused.empty()) {
      fused(*attention.qkv, c, name(names_.fused));
    } else {
      const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
      rows(*attention.qkv, 0, q, name(names_.q));
      rows(*attention.qkv, q, kv, name(names_.k));
      rows(*attention.qkv, q + kv, kv, name(names_.v));
    }
    if (attention.q_norm) {
      file_.read_into(name("self_attn.q_norm.weight"), attention.q_norm->weight);
      file_.read_into(name("self_attn.k_norm.weight"), attention.k_norm->weight);
    }
    linear(*attention.output, name(names_.output));
    if (c.gated) {
      rows(*layer.feed->up, 0, c.feed_forward, name(names_.gate));
      rows(*layer.feed->up, c.feed_forward, c.feed_forward, name(names_.up));
    } else {
      linear(*layer.feed->up, name(names_.up));
    }
    linear(*layer.feed->down, name(names_.down));
  }

  Checkpoint& file_;
  const TensorNames& names_;
  std::string prefix_;
  std::string head_;
};

// Whether `architectures` names a language model; empty if the file does not say.
std::optional<bool> says_language_model(const fs::path& dir) {
  const rotary::files::Json json = rotary::files::parse_json(json_file_text("read_config", dir / "config.json"));
  const auto found = json.find("architectures");
  if (found == json.end() || !found->is_array() || found->empty()) return std::nullopt;
  return std::any_of(found->begin(), found->end(), [](const auto& item) {
    return item.is_string() && item.template get_ref<const std::string&>().ends_with("ForCausalLM");
  });
}

LoadedDecoder load_family(const fs::path& dir, DecoderConfig config, const Family& family) {
  Checkpoint checkpoint(dir);
  FamilyFile file(checkpoint, tensor_names(family));
  LoadedDecoder loaded;
  file.expect_sizes(config);
  const std::optional<bool> language_model = says_language_model(dir);
  config.head = !file.head().empty() || (config.tied && !file.is_base() && language_model.value_or(true));
  if (!config.head && !config.tied && !file.is_base() && language_model.value_or(false)) {
    refuse(Code::TENSOR, "architectures in config.json names a language model but the file has no head " +
                             in_quotes(std::string(words(tensor_names(family).heads).front()) + ".weight"));
  }
  if (config.head && config.tied && !file.head().empty() && file.head_differs(config)) {
    config.tied = false;
    loaded.warnings.push_back("tie_word_embeddings is true but the head in the file is another matrix: it is used");
  }
  loaded.model = Decoder(config);
  loaded.has_head = config.head;
  file.load(*loaded.model);
  for (const std::string& name : file.foreign()) {
    loaded.warnings.push_back("the file has " + in_quotes(name) + " outside the model: not used");
  }
  return loaded;
}

LoadedDecoder load_own(const fs::path& dir, const DecoderConfig& config) {
  Checkpoint checkpoint(dir);
  const auto tensors = static_cast<std::int64_t>(checkpoint.unused().size());
  if (config.layers > tensors) {
    refuse(Code::TENSOR, "config.json has " + std::to_string(config.layers) + " layers but the file only " +
                             std::to_string(tensors) + " tensors");
  }
  {  // before a model of the config's sizes allocates memory
    const MetaDevice no_memory;
    for (const auto& item : Decoder(config)->named_parameters()) checkpoint.expect(item.key(), item.value().sizes());
  }
  LoadedDecoder loaded;
  loaded.model = Decoder(config);
  loaded.has_head = config.head;
  for (const auto& item : loaded.model->named_parameters()) checkpoint.read_into(item.key(), item.value());
  const std::vector<std::string> unused = checkpoint.unused();
  if (!unused.empty()) {
    refuse(Code::TENSOR, "the model that config.json describes has no " + in_quotes(unused.front()));
  }
  return loaded;
}

}  // namespace

LoadedDecoder load_decoder(const fs::path& dir) {
  const DecoderConfig config = read_decoder_config(dir);
  const Family* family = decoder_family(config.model_type);
  LoadedDecoder loaded = family != nullptr ? load_family(dir, config, *family) : load_own(dir, config);
  loaded.model->eval();
  return loaded;
}

void save_decoder(const DecoderImpl& model, const fs::path& dir) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& item : model.named_parameters()) tensors.emplace_back(item.key(), item.value());
  write_tensors(dir / "model.safetensors", tensors, {{"format", "pt"}});
  rotary::files::write_whole("save_decoder", dir / "config.json",
                             decoder_config_json(model.config(), parameter_count(model)));
}

}  // namespace rotary_torch
