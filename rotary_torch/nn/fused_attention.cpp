#include "rotary_torch/nn/fused_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

#include "rotary_torch/nn/small_heads.h"
#include "rotary_torch/op/bridge.h"
#include "rotary_torch/op/dims.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// f32 [batch, tokens, heads, head_dim], inner stride 1: the block of every head that begins at first.
rotary::Heads blocks_of(const Tensor& x, std::int64_t first) {
  const rotary::Heads heads = heads_of(x, places_of(Dims::bthd));
  return rotary::slice(heads, static_cast<int>(first), static_cast<int>(x.size(3) - first));
}

std::optional<Tensor> optional(const Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; }

// torch's kernel, on the heads of q, k and v in one block [batch, tokens, 3 * heads, head_dim].
struct QKV {
  explicit QKV(const Tensor& all) : q(third(all, 0)), k(third(all, 1)), v(third(all, 2)) {}
  static Tensor third(const Tensor& all, std::int64_t i) {
    const std::int64_t heads = all.size(2) / 3;
    return all.narrow(2, i * heads, heads).transpose(1, 2);
  }
  Tensor q, k, v;
};
std::pair<Tensor, Tensor> flash_forward(const Tensor& all, const ScoreMask& mask, double scale) {
  const QKV in(all);
  const auto [y, logsumexp] =
      at::_scaled_dot_product_flash_attention_for_cpu(in.q, in.k, in.v, 0, mask.causal, optional(mask.bias), scale);
  return {y.transpose(1, 2), logsumexp};
}
Tensor flash_backward(const Tensor& grad, const Tensor& all, const Tensor& y, const Tensor& logsumexp,
                      const ScoreMask& mask, double scale) {
  const QKV in(all);
  const auto [q, k, v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      grad.transpose(1, 2), in.q, in.k, in.v, y.transpose(1, 2), logsumexp, 0, mask.causal, optional(mask.bias), scale);
  return at::cat({q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)}, 2);
}

bool small(const FusedAttention& f, std::int64_t batch) {
  return small_heads_fit(f.head_dim) && batch * f.kv_heads >= at::get_num_threads();
}

struct Step : torch::autograd::Function<Step> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias, const TableTensors* table, const ScoreMask& mask,
                        const FusedAttention& f) {
    const Tensor all = at::linear(x, weight, bias).view({x.size(0), x.size(1), f.heads + 2 * f.kv_heads, f.head_dim});
    if (table != nullptr) rotate_(all.narrow(2, 0, f.rotated), *table, Dims::bthd, f.first);
    const bool by_small = small(f, x.size(0));
    const auto [y, logsumexp] =
        by_small ? small_heads_forward(all, f.heads, mask, f.scale) : flash_forward(all, mask, f.scale);
    const TableTensors rows = table == nullptr ? TableTensors{} : *table;
    context->save_for_backward({x, weight, rows.cos, rows.sin, mask.bias, all, y.detach(), logsumexp});
    auto& words = context->saved_data;
    words["pairing"] = static_cast<std::int64_t>(rows.pairing);
    words["causal"] = mask.causal;
    words["small"] = by_small;
    words["has_bias"] = bias.has_value();
    words["heads"] = f.heads;
    words["rotated"] = f.rotated;
    words["first"] = f.first;
    words["scale"] = f.scale;
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "[attention] a second gradient must be asked in f64 but got f32");
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const Tensor rows = gradient_of_heads(*context, saved, grads[0]).view({-1, weight.size(0)});
    const bool has_bias = context->saved_data["has_bias"].toBool();
    variable_list result(6);  // one for each argument of forward
    if (context->needs_input_grad(0)) result[0] = rows.mm(weight).view(x.sizes());
    if (context->needs_input_grad(1)) result[1] = rows.t().mm(x.reshape({-1, weight.size(1)}));
    if (has_bias && context->needs_input_grad(2)) result[2] = rows.sum(0);
    return result;
  }

  // The gradient of the projection's output, in one block.
  static Tensor gradient_of_heads(AutogradContext& context, const variable_list& saved, const Tensor& grad) {
    const Tensor &cos = saved[2], &sin = saved[3], &all = saved[5], &y = saved[6], &logsumexp = saved[7];
    auto& words = context.saved_data;
    const ScoreMask mask{words["causal"].toBool(), saved[4]};
    const double scale = words["scale"].toDouble();
    const Tensor block = words["small"].toBool()
                             ? small_heads_backward(grad, all, y, logsumexp, words["heads"].toInt(), mask, scale)
                             : flash_backward(grad, all, y, logsumexp, mask, scale);
    if (cos.defined()) {
      const auto pairing = static_cast<rotary::Pairing>(words["pairing"].toInt());
      const BorrowedTable rows(cos, sin, pairing);
      rotary::rotate(blocks_of(block.narrow(2, 0, words["rotated"].toInt()), words["first"].toInt()), rows.table,
                     {rotary::Direction::backward, threads()});
    }
    return block;
  }
};

bool plain(const Tensor& t) { return t.scalar_type() == at::kFloat && t.is_cpu() && t.layout() == at::kStrided; }
bool recorded(const Tensor& t) { return t.requires_grad() || t._fw_grad(0).defined(); }

}  // namespace

bool fused_attention_fits(const Tensor& x, const Tensor& weight, const TableTensors* table, const ScoreMask& mask,
                          const FusedAttention& f) {
  if (f.heads != f.kv_heads && !small(f, x.size(0))) return false;
  if (!plain(x) || !plain(weight) || x.numel() == 0 || x._fw_grad(0).defined()) return false;
  if (table != nullptr && (!plain(table->cos) || recorded(table->cos) || recorded(table->sin))) return false;
  return !mask.bias.defined() || (plain(mask.bias) && !recorded(mask.bias) && mask.bias.stride(3) == 1);
}

Tensor fused_attention(const Tensor& x, const Tensor& weight, const Tensor& bias, const TableTensors* table,
                       const ScoreMask& mask, const FusedAttention& f) {
  return Step::apply(x, weight, optional(bias), table, mask, f);
}

}  // namespace rotary_torch
