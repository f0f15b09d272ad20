#include "torch/fused_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

#include "torch/bridge.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// f32 [batch, tokens, heads, head_dim], inner stride 1: the block of every head that begins at first.
rotary::Heads heads_of(const Tensor& x, std::int64_t first) {
  rotary::Layout layout;
  layout.batch = x.size(0), layout.batch_stride = x.stride(0);
  layout.tokens = x.size(1), layout.token_stride = x.stride(1);
  layout.heads = x.size(2), layout.head_stride = x.stride(2);
  layout.head_dim = static_cast<int>(x.size(3));
  const rotary::Heads heads{x.mutable_data_ptr<float>(), rotary::DType::f32, layout};
  return rotary::slice(heads, static_cast<int>(first), static_cast<int>(x.size(3) - first));
}

// The heads of q, k and v in the projection's output [batch, tokens, 3 * heads, head_dim], as the kernel takes them.
struct QKV {
  explicit QKV(const Tensor& all)
      : q(all.narrow(2, 0, all.size(2) / 3).transpose(1, 2)),
        k(all.narrow(2, all.size(2) / 3, all.size(2) / 3).transpose(1, 2)),
        v(all.narrow(2, all.size(2) / 3 * 2, all.size(2) / 3).transpose(1, 2)) {}
  Tensor q, k, v;
};

std::optional<Tensor> optional(const Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; }

struct Step : torch::autograd::Function<Step> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias, const TableTensors* table, const ScoreMask& mask,
                        const FusedAttention& f) {
    const Tensor all = at::linear(x, weight, bias).view({x.size(0), x.size(1), 3 * f.heads, f.head_dim});
    if (table != nullptr) rotate_(all.narrow(2, 0, f.turning), *table, Dims::bthd, f.first);
    const QKV in(all);
    const auto [y, logsumexp] =
        at::_scaled_dot_product_flash_attention_for_cpu(in.q, in.k, in.v, 0, mask.causal, optional(mask.bias), f.scale);
    const TableTensors rows = table == nullptr ? TableTensors{{}, {}, rotary::Pairing::half} : *table;
    context->save_for_backward({x, weight, rows.cos, rows.sin, mask.bias, all, y, logsumexp});
    context->saved_data["pairing"] = static_cast<std::int64_t>(rows.pairing);
    context->saved_data["causal"] = mask.causal;
    context->saved_data["has_bias"] = bias.has_value();
    context->saved_data["turning"] = f.turning;
    context->saved_data["first"] = f.first;
    context->saved_data["scale"] = f.scale;
    return y.transpose(1, 2);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "[attention] the fused kernel has no second gradient: use f64");
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const Tensor rows = gradient_of_heads(context, saved, grads[0]).view({-1, weight.size(0)});
    const bool has_bias = context->saved_data["has_bias"].toBool();
    variable_list result(6);  // one for each argument of forward
    if (context->needs_input_grad(0)) result[0] = rows.mm(weight).view(x.sizes());
    if (context->needs_input_grad(1)) result[1] = rows.t().mm(x.reshape({-1, weight.size(1)}));
    if (has_bias && context->needs_input_grad(2)) result[2] = rows.sum(0);
    return result;
  }

  // The gradient of the projection's output, one block as that is.
  static Tensor gradient_of_heads(AutogradContext* context, const variable_list& saved, const Tensor& grad) {
    const Tensor &cos = saved[2], &sin = saved[3], &score_bias = saved[4], &all = saved[5], &y = saved[6];
    const QKV in(all);
    const auto [grad_q, grad_k, grad_v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad.transpose(1, 2), in.q, in.k, in.v, y, saved[7], 0, context->saved_data["causal"].toBool(),
        optional(score_bias), context->saved_data["scale"].toOptional<double>());
    const Tensor block = at::empty_like(all);
    std::optional<rotary::Table> table;
    const auto pairing = static_cast<rotary::Pairing>(context->saved_data["pairing"].toInt());
    if (cos.defined()) table.emplace(core_table(cos, sin, pairing));
    const std::int64_t turning = context->saved_data["turning"].toInt(), heads = all.size(2) / 3;
    const std::int64_t first = context->saved_data["first"].toInt();
    std::int64_t head = 0;
    for (const Tensor& part : {grad_q, grad_k, grad_v}) {
      const Tensor from = part.transpose(1, 2), to = block.narrow(2, head, heads);
      if (table && head < turning) {
        if (first > 0) to.narrow(3, 0, first).copy_(from.narrow(3, 0, first));
        rotary::rotate_backward(heads_of(from, first), heads_of(to, first), *table, threads());
      } else {
        to.copy_(from);
      }
      head += heads;
    }
    return block;
  }
};

bool plain(const Tensor& t) { return t.scalar_type() == at::kFloat && t.is_cpu() && t.layout() == at::kStrided; }
bool recorded(const Tensor& t) { return t.requires_grad() || t._fw_grad(0).defined(); }

}  // namespace

bool fused_attention_fits(const Tensor& x, const Tensor& weight, const TableTensors* table, const ScoreMask& mask) {
  if (!plain(x) || !plain(weight) || x.numel() == 0 || x._fw_grad(0).defined()) return false;
  if (table != nullptr && (!plain(table->cos) || recorded(table->cos) || recorded(table->sin))) return false;
  return !mask.bias.defined() || (plain(mask.bias) && !recorded(mask.bias));
}

Tensor fused_attention(const Tensor& x, const Tensor& weight, const Tensor& bias, const TableTensors* table,
                       const ScoreMask& mask, const FusedAttention& f) {
  return Step::apply(x, weight, optional(bias), table, mask, f);
}

}  // namespace rotary_torch
