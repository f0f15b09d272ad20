// The op rotary::table with its gradient.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

#include "rotary_torch/op/bridge.h"

namespace rotary_torch {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

using CosSin = std::tuple<Tensor, Tensor>;

void check_inv_freq(const Tensor& inv_freq, at::IntArrayRef axis) {
  TORCH_CHECK(inv_freq.scalar_type() == at::kDouble && inv_freq.dim() == 1,
              "[table] inv_freq must be f64 [pairs] but got ", inv_freq.scalar_type(), " ", inv_freq.sym_sizes());
  TORCH_SYM_CHECK(inv_freq.sym_size(0).sym_gt(0), "[table] inv_freq must have at least one pair but is empty");
  if (!axis.empty()) {
    TORCH_SYM_CHECK(inv_freq.sym_size(0).sym_eq(static_cast<std::int64_t>(axis.size())),
                    "[table] axis must be empty or have one value for each of the ", inv_freq.sym_size(0),
                    " pairs but has ", axis.size());
  }
  for (const std::int64_t a : axis) TORCH_CHECK(a >= 0 && a < 256, "[table] axis must be from 0 to 255 but got ", a);
}

int axes_of(at::IntArrayRef axis) {
  rotary::Frequencies frequencies;
  frequencies.axis.assign(axis.begin(), axis.end());
  return frequencies.axes();
}

// For any device; the angles are computed on the CPU.
CosSin table_op(const Tensor& positions, const Tensor& inv_freq, double attention_factor, at::IntArrayRef axis) {
  check_inv_freq(inv_freq, axis);
  const Tensor speeds = inv_freq.to(at::kCPU).contiguous();
  const double* begin = speeds.const_data_ptr<double>();
  rotary::Frequencies frequencies;
  frequencies.inv_freq.assign(begin, begin + speeds.numel());
  frequencies.pairing = rotary::Pairing::half;  // rows do not depend on it
  frequencies.axis.assign(axis.begin(), axis.end());
  frequencies.attention_factor = attention_factor;
  const TableTensors made = table_tensors(frequencies, PositionTensor(positions, frequencies.axes()));
  return {made.cos.to(positions.device()), made.sin.to(positions.device())};
}

CosSin table_meta(const Tensor& positions, const Tensor& inv_freq, double, at::IntArrayRef axis) {
  check_inv_freq(inv_freq, axis);
  const bool by_axis = axes_of(axis) > 1 && positions.dim() > 1;
  const auto sizes = positions.sym_sizes().slice(by_axis ? 1 : 0);
  TORCH_CHECK(sizes.size() == 1 || sizes.size() == 2,
              "[table] positions must be [tokens] or [batch, tokens], behind "
              "[axes] where there are several, but got shape ",
              positions.sym_sizes());
  std::vector<c10::SymInt> shape(sizes.begin(), sizes.end());
  shape.push_back(inv_freq.sym_size(0));
  const auto options = positions.options().dtype(at::kFloat);
  return {at::empty_symint(shape, options), at::empty_symint(shape, options)};
}

CosSin call_table(const Tensor& positions, const Tensor& inv_freq, double attention_factor, at::IntArrayRef axis) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("rotary::table", "").typed<decltype(table_op)>();
  return op.call(positions, inv_freq, attention_factor, axis);
}

// [..., pairs or 1]: the coordinate that drives each pair.
Tensor per_pair(const Tensor& positions, at::IntArrayRef axis) {
  if (axes_of(axis) == 1 || positions.dim() == 1) return positions.unsqueeze(-1);
  std::vector<Tensor> coordinates;
  for (const std::int64_t a : axis) coordinates.push_back(positions.select(0, a));
  return at::stack(coordinates, -1);
}

// cos(p w) has the derivative -p sin(p w) in w, sin(p w) has p cos(p w); both carry the attention factor.
struct Angles : torch::autograd::Function<Angles> {
  static variable_list forward(AutogradContext* context, const Tensor& positions, const Tensor& inv_freq,
                               double attention_factor, const std::vector<std::int64_t>& axis) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [cos, sin] = call_table(positions, inv_freq, attention_factor, axis);
    context->save_for_backward({positions, cos, sin});
    context->saved_data["axis"] = axis;
    return {cos, sin};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const std::vector<std::int64_t> axis = context->saved_data["axis"].toIntVector();
    const Tensor positions = per_pair(saved[0].to(at::kDouble), axis);
    const auto wide = [](const Tensor& t) { return t.to(at::kDouble); };
    const Tensor rows = (wide(grads[1]) * wide(saved[1]) - wide(grads[0]) * wide(saved[2])) * positions;
    return {Tensor(), rows.sum_to_size_symint({rows.sym_size(-1)}), Tensor(), Tensor()};
  }
};

CosSin table_autograd(const Tensor& positions, const Tensor& inv_freq, double attention_factor, at::IntArrayRef axis) {
  TORCH_CHECK(!at::GradMode::is_enabled() || !positions.requires_grad(),
              "[table] positions have no gradient: detach them");
  if (at::GradMode::is_enabled() && inv_freq.requires_grad()) {
    const variable_list made = Angles::apply(positions, inv_freq, attention_factor, axis.vec());
    return {made[0], made[1]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_table(positions, inv_freq, attention_factor, axis);
}

}  // namespace

std::pair<Tensor, Tensor> table(const Tensor& positions, const Tensor& inv_freq, double attention_factor,
                                at::IntArrayRef axis) {
  auto [cos, sin] = call_table(positions, inv_freq, attention_factor, axis);
  return {std::move(cos), std::move(sin)};
}

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  m.def(
      "table(Tensor positions, Tensor inv_freq, float attention_factor=1.0, int[] axis=[]) -> (Tensor cos, Tensor sin)",
      {at::Tag::pt2_compliant_tag});
  m.impl("table", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, table_op));
  m.impl("table", torch::dispatch(c10::DispatchKey::Meta, table_meta));
  m.impl("table", torch::dispatch(c10::DispatchKey::Autograd, table_autograd));
}

}  // namespace rotary_torch
