// rotary-torch forward: the hidden states and logits that a checkpoint gives for token ids.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/decoder.h"
#include "rotary_torch/op/refusal.h"

namespace rotary::cli {

namespace {

using at::Tensor;

constexpr rotary_torch::Refusal refuse{"forward"};

struct Options {
  std::string dir, input, mask, output;
  std::optional<int> threads;
  bool json = false;
};

// Bool [batch, tokens], or an undefined tensor if no mask is given.
Tensor read_mask(const std::string& path, const Tensor& ids) {
  if (path.empty()) return {};
  const Tensor mask = rotary_torch::torch_tensor(read_npy(path)).to(at::kDouble), tokens = mask == 1;
  refuse.unless(mask.sizes() == ids.sizes(), Code::SHAPE, path, ": the mask must have the shape of the ids ",
                ids.sizes(), " but has ", mask.sizes());
  const Tensor wrong = at::logical_not(at::logical_or(tokens, mask == 0));
  if (wrong.any().item<bool>()) {
    refuse(Code::VALUE, path, ": the mask must be 1 for a token and 0 for padding but holds ",
           significant(mask.masked_select(wrong)[0].item<double>(), 6));
  }
  return tokens;
}

// Reads the ids before the weights, so that a wrong file is reported at once.
void run(const Options& options) {
  if (is_npy(options.output)) throw UsageError("--output takes a .safetensors: it holds several tensors");
  check_output(options.output);
  use_threads(options.threads);
  const c10::InferenceMode inference;
  const Tensor ids = read_ids("forward", options.input, rotary_torch::read_decoder_config(options.dir).vocabulary);
  const Tensor mask = read_mask(options.mask, ids);
  rotary_torch::LoadedDecoder loaded = rotary_torch::load_decoder(options.dir);
  print_warnings(loaded.warnings);
  const Tensor hidden = loaded.model->hidden(ids, mask);
  std::vector<rotary::Tensor> tensors = {rotary_torch::file_tensor("hidden", hidden)};
  if (loaded.has_head) tensors.push_back(rotary_torch::file_tensor("logits", loaded.model->logits(hidden)));
  save(options.output, tensors, {});
  if (options.json) {
    nlohmann::ordered_json list;
    for (const rotary::Tensor& tensor : tensors) list.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
    std::cout << versioned({{"output", options.output}, {"tensors", std::move(list)}}) << '\n';
    return;
  }
  std::cout << "wrote " << printable(options.output);
  for (const rotary::Tensor& tensor : tensors) std::cout << "  " << tensor.name << ' ' << shape_text(tensor.shape);
  std::cout << '\n';
}

}  // namespace

void add_forward(Command& command) {
  auto options = std::make_shared<Options>();
  command.option("DIR", options->dir);
  command.option("--input", options->input);
  command.option("--mask", options->mask);
  command.option("--output", options->output);
  command.option("--json", options->json);
  command.option("--threads", options->threads);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
