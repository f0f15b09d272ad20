#include "rotary_torch/models/summary.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <unordered_set>
#include <utility>

#include "rotary_torch/models/decoder.h"
#include "rotary_torch/models/roformer.h"
#include "rotary_torch/nn/attention.h"

namespace rotary_torch {
namespace {

using torch::nn::Module;
using Shape = std::vector<std::int64_t>;

// The name of the module's type: "torch::nn::LinearImpl" becomes "Linear", "Decoder" stays.
std::string type_of(const Module& module) {
  std::string type = module.name();
  if (const std::size_t scope = type.rfind("::"); scope != std::string::npos) type.erase(0, scope + 2);
  if (type.ends_with("Impl")) type.erase(type.size() - 4);
  return type;
}

class Walk {
 public:
  Walk(Summary& summary, std::int64_t batch, std::int64_t tokens) : summary_(summary), batch_(batch), tokens_(tokens) {}

  // Adds the row of a module and those below it; returns the module's output shape.
  Shape visit(const Module& module, const Module* parent, const std::string& name) {
    const std::size_t place = summary_.rows.size();
    const std::string path = path_.empty() ? name : path_ + "." + name;
    summary_.rows.push_back({.name = name, .path = path, .type = type_of(module), .depth = depth_});
    const std::int64_t before = summary_.parameters, trainable_before = summary_.trainable;
    std::int64_t own = 0;
    for (const at::Tensor& parameter : module.parameters(/*recurse=*/false)) own += count(parameter);
    const Shape last = visit_children(module, path);
    SummaryRow& row = summary_.rows[place];
    row.own_parameters = own;
    row.parameters = summary_.parameters - before;
    row.trainable = row.parameters == 0 || summary_.trainable > trainable_before;
    row.output_shape = output_shape(module, parent, row.name, last);
    return row.output_shape;
  }

 private:
  // Returns the shape of the last child that has one. Children are in the order of the forward pass.
  Shape visit_children(const Module& module, const std::string& path) {
    const std::string above = std::exchange(path_, path);
    ++depth_;
    Shape last;
    for (const auto& child : module.named_children()) {
      Shape shape = visit(*child.value(), &module, child.key());
      if (!shape.empty()) last = std::move(shape);
    }
    --depth_;
    path_ = above;
    return last;
  }

  std::int64_t count(const at::Tensor& parameter) {
    if (!seen_.insert(parameter.unsafeGetTensorImpl()).second) return 0;
    summary_.parameters += parameter.numel();
    if (parameter.requires_grad()) summary_.trainable += parameter.numel();
    return parameter.numel();
  }

  Shape per_token(std::int64_t size) const { return {batch_, tokens_, size}; }

  // The output shapes of the two models' modules; an unknown module has the shape of its last child.
  Shape output_shape(const Module& module, const Module* parent, const std::string& name, const Shape& last) const {
    if (module.as<torch::nn::ModuleListImpl>() != nullptr) return {};
    if (const auto* linear = module.as<torch::nn::LinearImpl>()) return per_token(linear->options.out_features());
    if (const auto* embedding = module.as<torch::nn::EmbeddingImpl>()) {
      const std::int64_t size = embedding->options.embedding_dim();
      const bool of_positions = name == "learned_positions" || name == "position_table";
      return of_positions ? Shape{tokens_, size} : per_token(size);
    }
    if (const auto* norm = module.as<NormLayerImpl>()) {
      const auto* attention = parent != nullptr ? parent->as<MultiHeadAttentionImpl>() : nullptr;
      if (attention == nullptr) return per_token(norm->weight.size(0));
      const AttentionOptions& options = attention->options();
      return {batch_, tokens_, name == "q_norm" ? options.heads : options.kv_heads, norm->weight.size(0)};
    }
    if (const auto* attention = module.as<MultiHeadAttentionImpl>()) return per_token(attention->options().width);
    if (const auto* decoder = module.as<DecoderImpl>()) {
      return per_token(decoder->config().head ? decoder->config().vocabulary : decoder->config().width);
    }
    if (const auto* encoder = module.as<RoFormerImpl>()) {
      return per_token(encoder->has_head() ? encoder->config().vocabulary : encoder->config().width);
    }
    if (const auto* head = module.as<RoFormerHeadImpl>()) return per_token(head->bias.size(0));
    return last;
  }

  Summary& summary_;
  std::int64_t batch_, tokens_;
  std::string path_;
  int depth_ = 0;
  std::unordered_set<const void*> seen_;
};

}  // namespace

Summary summarise(const Module& model, std::int64_t batch, std::int64_t tokens) {
  Summary summary;
  Walk(summary, batch, tokens).visit(model, nullptr, "");
  return summary;
}

}  // namespace rotary_torch
