// rotary forward: the hidden states and logits that a checkpoint gives for token ids.
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
#include "apps/shared/torch_commands.h"
#include "apps/shared/usage_error.h"
#include "language_model.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/decoder.h"
#include "rotary_torch/models/roformer.h"
#include "rotary_torch/op/refusal.h"

namespace rotary::cli {

namespace {

using at::Tensor;

constexpr rotary_torch::Refusal refuse{"forward"};

struct Options {
  std::string dir;
  std::string input;
  std::string mask;
  std::string output;
  std::optional<int> threads;
  bool json = false;
};

// Bool [batch, tokens], or an undefined tensor if no mask is given.
Tensor read_mask(const std::string& path, const Tensor& ids) {
  if (path.empty()) return {};
  const Tensor mask = rotary_torch::torch_tensor(read_npy(path)).to(at::kDouble);
  if (mask.sizes() != ids.sizes())
    refuse(Code::SHAPE, path, ": the mask must have the shape of the ids ", ids.sizes(), " but has ", mask.sizes());
  const Tensor tokens = mask == 1;
  const Tensor wrong = at::logical_not(at::logical_or(tokens, mask == 0));
  if (wrong.any().item<bool>()) {
    refuse(Code::VALUE, path, ": the mask must be 1 for a token and 0 for padding but holds ",
           significant(mask.masked_select(wrong)[0].item<double>(), 6));
  }
  return tokens;
}

// Computed for a slice of the tokens at a time, so that the logits are in memory only once.
template <class Model>
rotary::Tensor all_logits(Model& model, const Tensor& hidden) {
  constexpr std::int64_t slice = 64;
  const std::int64_t batch = hidden.size(0), tokens = hidden.size(1);
  rotary::Tensor out;
  out.name = "logits";
  out.shape = {batch, tokens, model->config().vocabulary};
  out.bytes = static_cast<std::uint64_t>(out.elements()) * sizeof(float);
  out.data.resize(out.bytes);
  const Tensor view = at::from_blob(out.data.data(), out.shape, at::kFloat);
  for (std::int64_t begin = 0; begin < tokens; begin += slice) {
    const std::int64_t count = std::min(slice, tokens - begin);
    view.narrow(1, begin, count).copy_(model->logits(hidden.narrow(1, begin, count)));
  }
  return out;
}

template <class Model>
void write_answers(rotary_torch::Loaded<Model> loaded, const Tensor& ids, const Options& options) {
  const Tensor mask = read_mask(options.mask, ids);
  for (const std::string& warning : loaded.warnings) std::cerr << "warning: " << printable(warning) << '\n';
  const Tensor hidden = loaded.model->hidden(ids, mask);
  std::vector<rotary::Tensor> tensors = {rotary_torch::file_tensor("hidden", hidden)};
  if (loaded.has_head) tensors.push_back(all_logits(loaded.model, hidden));
  std::vector<const rotary::Tensor*> pointers;
  for (const rotary::Tensor& tensor : tensors) pointers.push_back(&tensor);
  write_safetensors(options.output, pointers);
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

// Reads the ids before the weights, so that a wrong file is reported at once.
void run(const Options& options) {
  if (is_npy(options.output)) throw UsageError("--output takes a .safetensors: it holds several tensors");
  check_output(options.output);
  use_threads(options.threads);
  const c10::InferenceMode inference;
  const auto ids_for = [&](const auto& config) { return read_ids("forward", options.input, config.vocabulary); };
  if (is_roformer("forward", options.dir)) {
    const Tensor ids = ids_for(rotary_torch::read_roformer_config(options.dir));
    write_answers(rotary_torch::load_roformer(options.dir), ids, options);
  } else {
    const Tensor ids = ids_for(rotary_torch::read_decoder_config(options.dir));
    write_answers(rotary_torch::load_decoder(options.dir), ids, options);
  }
}

}  // namespace

void add_forward(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, "forward");
  command.option("DIR", options->dir);
  command.option("--input", options->input);
  command.option("--mask", options->mask);
  command.option("--output", options->output);
  command.option("--json", options->json);
  add_threads_option(command, options->threads);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
