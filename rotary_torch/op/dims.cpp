#include "rotary_torch/op/dims.h"

#include <c10/util/Exception.h>

#include <limits>

#include "values/names.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::detail::Named;

constexpr Named<Dims> all_dims[] = {
    {Dims::bthd, "bthd"}, {Dims::bhtd, "bhtd"}, {Dims::tbhd, "tbhd"}, {Dims::thd, "thd"}};

rotary::Layout layout_of(const Tensor& x, const Places& p) {
  const std::int64_t head_dim = x.size(-1);
  TORCH_CHECK(head_dim <= std::numeric_limits<int>::max(), "[rotate] head_dim must fit an int but got ", head_dim);
  rotary::Layout layout;
  if (p.batch >= 0) layout.batch = x.size(p.batch), layout.batch_stride = x.stride(p.batch);
  layout.tokens = x.size(p.tokens), layout.token_stride = x.stride(p.tokens);
  layout.heads = x.size(p.heads), layout.head_stride = x.stride(p.heads);
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

Dims dims_named(std::string_view operation, std::string_view word) {
  for (const Named<Dims>& row : all_dims) {
    if (word == row.name) return row.value;
  }
  TORCH_CHECK(false, "[", operation, "] layout must be ", rotary::detail::list_of(all_dims), " but got ", word);
}

Places places_of(Dims dims) {
  switch (dims) {
    case Dims::bthd:
      return {0, 1, 2};
    case Dims::bhtd:
      return {0, 2, 1};
    case Dims::tbhd:
      return {1, 0, 2};
    case Dims::thd:
      return {-1, 0, 1};
  }
  TORCH_CHECK(false, "[rotate] dims must be ", rotary::detail::list_of(all_dims), " but got value ",
              static_cast<int>(dims));
}

rotary::Heads heads_of(const Tensor& x, const Places& places) {
  return {x.mutable_data_ptr(), dtype_of(x), layout_of(x, places)};
}
rotary::ConstHeads const_heads_of(const Tensor& x, const Places& places) {
  return {x.const_data_ptr(), dtype_of(x), layout_of(x, places)};
}

}  // namespace rotary_torch
