#include "rotary_torch/op/bridge.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "values/names.h"

namespace rotary_torch {

using at::Tensor;

// ---- heads ---------------------------------------------------------------------------------------

namespace {

using rotary::detail::Named;

constexpr Named<Dims> all_dims[] = {
    {Dims::bthd, "bthd"}, {Dims::bhtd, "bhtd"}, {Dims::tbhd, "tbhd"}, {Dims::thd, "thd"}};

rotary::Layout layout_of(const Tensor& x, const Places& p) {
  const std::int64_t head_dim = x.size(-1);
  TORCH_CHECK(head_dim <= std::numeric_limits<int>::max(), "[rotate] head_dim must fit an int but got ", head_dim);
  rotary::Layout layout;
  if (p.batch >= 0) layout.batch = x.size(p.batch), layout.batch_stride = x.stride(p.batch);
  layout.tokens = 1;
  if (p.tokens >= 0) layout.tokens = x.size(p.tokens), layout.token_stride = x.stride(p.tokens);
  if (p.heads >= 0) layout.heads = x.size(p.heads), layout.head_stride = x.stride(p.heads);
  layout.head_dim = static_cast<int>(head_dim);
  return layout;
}

rotary::DType dtype_of(const Tensor& x) {
  return x.scalar_type() == at::kFloat  ? rotary::DType::f32
         : x.scalar_type() == at::kHalf ? rotary::DType::f16
                                        : rotary::DType::bf16;
}

}  // namespace

const char* name(Dims dims) noexcept { return rotary::detail::name_in(all_dims, dims); }

Places places_of(const char* operation, std::string_view layout) {
  const std::string_view others = layout.substr(0, layout.empty() ? 0 : layout.size() - 1);
  bool known = layout.ends_with('d') && !others.empty();
  for (const char letter : others) {
    known = known && std::string_view("bth").find(letter) != std::string_view::npos &&
            others.find(letter) == others.rfind(letter);
  }
  TORCH_CHECK(known, "[", operation,
              "] layout must name the dimensions, b batch, t tokens, h heads in their order and ",
              "d head_dim last, as \"bthd\", \"bhtd\", \"tbhd\" or \"thd\", but got \"", layout, "\"");
  const auto place = [&](char letter) {
    const std::size_t at = others.find(letter);
    return at == std::string_view::npos ? -1 : static_cast<std::int64_t>(at);
  };
  return {place('b'), place('t'), place('h'), static_cast<std::int64_t>(layout.size())};
}

rotary::Heads heads_of(const Tensor& x, const Places& places) {
  return {x.mutable_data_ptr(), dtype_of(x), layout_of(x, places)};
}
rotary::ConstHeads const_heads_of(const Tensor& x, const Places& places) {
  return {x.const_data_ptr(), dtype_of(x), layout_of(x, places)};
}

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
std::vector<std::int64_t> shape_of(bool batched, int batch, std::int64_t tokens, int heads, int pairs) {
  if (heads > 1) return {batch, tokens, heads, pairs};
  return batched ? std::vector<std::int64_t>{batch, tokens, pairs} : std::vector<std::int64_t>{tokens, pairs};
}
Tensor tensor_of(std::span<const float> values, at::IntArrayRef shape) {
  Tensor t = at::empty(shape, at::kFloat);
  std::copy(values.begin(), values.end(), t.mutable_data_ptr<float>());
  return t;
}

}  // namespace

Tensor spread(const Tensor& rows, const Places& places, c10::SymIntArrayRef parts) {
  Tensor wide = rows.dim() == 2 ? rows.unsqueeze(0) : rows;
  if (rows.dim() == 4) {
    std::vector<Tensor> of_parts;
    for (const c10::SymInt& part : parts) of_parts.push_back(wide.repeat_interleave_symint(part / rows.sym_size(2), 2));
    wide = at::cat(of_parts, 2);
  } else {
    wide = wide.unsqueeze(2);
  }
  if (places.tokens >= 0 && places.tokens < places.batch) wide = wide.transpose(0, 1);
  if (places.tokens < 0) wide = wide.squeeze(1);
  if (places.batch < 0) wide = wide.squeeze(0);
  return places.heads < 0 ? wide.squeeze(-2) : wide.movedim(-2, places.heads);
}

Tensor gathered(Tensor wide, const Tensor& rows, const Places& places, c10::SymIntArrayRef parts) {
  wide = places.heads < 0 ? wide.unsqueeze(-2) : wide.movedim(places.heads, -2);
  if (places.batch < 0) wide = wide.unsqueeze(0);
  if (places.tokens < 0) wide = wide.unsqueeze(1);
  if (places.tokens >= 0 && places.tokens < places.batch) wide = wide.transpose(0, 1);
  if (rows.dim() < 4) return rows.dim() == 2 ? wide.squeeze(2).squeeze(0) : wide.squeeze(2);
  const c10::SymInt heads = rows.sym_size(2);
  Tensor sum;
  for (const Tensor& part : wide.split_with_sizes_symint(parts, 2)) {
    const Tensor shared = part.unflatten_symint(2, {heads, part.sym_size(2) / heads}).sum(3);
    sum = sum.defined() ? sum + shared : shared;
  }
  return sum;
}

rotary::Table borrowed(const Tensor& cos, const Tensor& sin, rotary::Pairing pairing) {
  return rotary::Table::borrow(values_of(cos), values_of(sin), static_cast<int>(cos.size(-1)), pairing,
                               cos.dim() > 2 ? static_cast<int>(cos.size(0)) : 1,
                               cos.dim() > 3 ? static_cast<int>(cos.size(2)) : 1);
}

TableTensors tensors(const rotary::Table& table) {
  const auto shape = shape_of(table.batch() > 1, table.batch(), table.tokens(), table.heads(), table.pairs());
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
  const auto shape =
      shape_of(positions.batched, positions.batch, positions.values.size(-1), frequencies.heads, frequencies.pairs());
  if (positions.values.numel() == 0) return {at::empty(shape, at::kFloat), at::empty(shape, at::kFloat), pairing};
  return translated([&] {
    const rotary::Table table(frequencies, positions.view(), {angles, rounding, threads()});
    return TableTensors{tensor_of(table.cos(), shape), tensor_of(table.sin(), shape), pairing};
  });
}

}  // namespace rotary_torch
