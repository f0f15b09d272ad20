// Reads a Decoder from a folder and writes it to one, with the library's own names or those of a family.
#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "files/text/io.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/decoder.h"

namespace rotary_torch {

LoadedDecoder load_decoder(const std::filesystem::path& dir) {
  DecoderConfig config = completed(read_decoder_config(dir));
  const TensorNames names = tensor_names(config.model_type, config.heads, config.head_dim);
  Checkpoint file(dir, names);
  // The tensors that bound the vocabulary, the width and the number of layers, before as many layers are made.
  const std::vector<std::int64_t> matrix{config.vocabulary, config.width};
  file.expect(file.name_of("embedding.weight"), matrix);
  file.expect(file.name_of("layers." + std::to_string(config.layers - 1) + ".attention_norm.weight"), {config.width});
  LoadedDecoder loaded;
  if (!names.trunk.empty()) {  // a family's: the file says whether there is a head
    const bool shares = config.tied && !file.is_base() && says_language_model(dir).value_or(true);
    config.head = file.has_head() || shares;
    if (!config.head) file.expect_no_head(dir, "head.weight");
    if (config.head && config.tied && file.unties("head.weight", "embedding.weight", matrix)) {
      config.tied = false;
      loaded.warnings.emplace_back(
          "tie_word_embeddings is true but the head in the file is another matrix: it is used");
    }
  }
  loaded.model = file.load([&] { return Decoder(config); });
  loaded.has_head = config.head;
  for (std::string& warning : file.foreign()) loaded.warnings.push_back(std::move(warning));
  return loaded;
}

void save_decoder(const DecoderImpl& model, const std::filesystem::path& dir) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& item : model.named_parameters()) tensors.emplace_back(item.key(), item.value());
  write_tensors(dir / "model.safetensors", tensors, {{"format", "pt"}});
  rotary::files::write_whole("save_decoder", dir / "config.json",
                             decoder_config_json(model.config(), parameter_count(model)));
}

}  // namespace rotary_torch
