// Tables as tensors: rotary::table with its gradient, and conversions between rotary::Table and tensors.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>
#include <vector>

#include "rotary_torch/op/bridge.h"

namespace rotary_torch {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// ---- threads -------------------------------------------------------------------------------------

namespace {

class TorchThreads final : public rotary::Executor {
 public:
  unsigned concurrency() const noexcept override { return static_cast<unsigned>(at::get_num_threads()); }
  void run(std::int64_t count, std::int64_t grain, Body body, void* context) const override {
    at::parallel_for(0, count, grain, [=](std::int64_t begin, std::int64_t end) { body(context, begin, end); });
  }
};

}  // namespace

const rotary::Executor& threads() noexcept {
  static const TorchThreads executor;
  return executor;
}

// ---- tables and tensors --------------------------------------------------------------------------

namespace {

std::span<const float> values_of(const Tensor& t) {
  return {t.const_data_ptr<float>(), static_cast<std::size_t>(t.numel())};
}
Tensor tensor_of(std::span<const float> values, at::IntArrayRef shape) {
  Tensor t = at::empty(shape, at::kFloat);
  std::copy(values.begin(), values.end(), t.mutable_data_ptr<float>());
  return t;
}

}  // namespace

BorrowedTable::BorrowedTable(const Tensor& c, const Tensor& s, rotary::Pairing pairing)
    : cos(c.contiguous()),
      sin(s.contiguous()),
      table(rotary::Table::borrow(values_of(cos), values_of(sin), static_cast<int>(cos.size(-1)), pairing,
                                  cos.dim() == 3 ? static_cast<int>(cos.size(0)) : 1)) {}

TableTensors tensors(const rotary::Table& table) {
  std::vector<std::int64_t> shape{table.tokens(), table.pairs()};
  if (table.batch() > 1) shape.insert(shape.begin(), table.batch());
  return {tensor_of(table.cos(), shape), tensor_of(table.sin(), shape), table.pairing()};
}

// ---- positions -----------------------------------------------------------------------------------

PositionTensor::PositionTensor(const Tensor& positions, int rope_axes) : axes(1), batch(1), batched(false) {
  const at::ScalarType dtype = positions.scalar_type();
  TORCH_CHECK(dtype == at::kLong || dtype == at::kInt || dtype == at::kDouble,
              "[table] positions must be int32, int64 or float64 but got ", dtype);
  const bool by_axis = rope_axes > 1 && positions.dim() > 1;
  TORCH_CHECK(positions.dim() >= 1 && positions.dim() <= (by_axis ? 3 : 2), "[table] positions must be ",
              rope_axes > 1 ? "[tokens], [axes, tokens] or [axes, batch, tokens]" : "[tokens] or [batch, tokens]",
              " but got shape ", positions.sizes());
  values = positions.detach().to(at::kCPU, dtype == at::kDouble ? at::kDouble : at::kLong).contiguous();
  if (by_axis) axes = static_cast<int>(values.size(0));
  batched = values.dim() == (by_axis ? 3 : 2);
  if (batched) batch = static_cast<int>(values.size(-2));
}

rotary::Positions PositionTensor::view() const {
  const auto count = static_cast<std::size_t>(values.numel());
  if (values.scalar_type() == at::kDouble) {
    return {std::span(values.const_data_ptr<double>(), count), axes, batch};
  }
  return {std::span(values.const_data_ptr<std::int64_t>(), count), axes, batch};
}

std::int64_t PositionTensor::length() const {
  if (values.numel() == 0) return 0;
  constexpr double too_far = 0x1p62;
  const Tensor largest = values.max();
  const double real = largest.to(at::kDouble).item<double>();
  if (!(real > -1)) return 0;
  TORCH_CHECK(real < too_far, "[table] positions must be below 2^62 where the scaling looks at the length but got ",
              real);
  return (values.scalar_type() == at::kDouble ? static_cast<std::int64_t>(std::floor(real))
                                              : largest.item<std::int64_t>()) +
         1;
}

TableTensors table_tensors(const rotary::Frequencies& frequencies, const PositionTensor& positions,
                           rotary::Angles angles, rotary::Rounding rounding) {
  const rotary::Pairing pairing = frequencies.pairing;
  const auto pairs = static_cast<std::int64_t>(frequencies.inv_freq.size());
  std::vector<std::int64_t> shape{positions.values.size(-1), pairs};
  if (positions.batched) shape.insert(shape.begin(), positions.batch);
  if (positions.values.numel() == 0) return {at::empty(shape, at::kFloat), at::empty(shape, at::kFloat), pairing};
  return translated([&] {
    const rotary::Table table(frequencies, positions.view(), {angles, rounding, threads()});
    return TableTensors{tensor_of(table.cos(), shape), tensor_of(table.sin(), shape), pairing};
  });
}

// ---- rotary::table -------------------------------------------------------------------------------

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

// The schema is in op.cpp, with those of the other ops.
TORCH_LIBRARY_IMPL(rotary, CompositeExplicitAutograd, m) { m.impl("table", table_op); }
TORCH_LIBRARY_IMPL(rotary, Meta, m) { m.impl("table", table_meta); }
TORCH_LIBRARY_IMPL(rotary, Autograd, m) { m.impl("table", table_autograd); }

}  // namespace rotary_torch
