// The library's one source: rotary::rotate and its family, and rotary::table: schemas, checks, kernels and gradients.
// The Python package defines rotate and rotate_qk by the same schema (python/rotary/_torch/ops.py); whichever is loaded
// first serves both.
#include "rotary_torch/op/op.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "rotary/gpu.h"
#include "rotary_torch/op/refusal.h"
#include "values/names.h"
#include "values/pairings.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Direction;
using rotary::Pairing;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// ---- heads ---------------------------------------------------------------------------------------

constexpr rotary::detail::Named<Dims> all_dims[] = {
    {Dims::bthd, "bthd"}, {Dims::bhtd, "bhtd"}, {Dims::tbhd, "tbhd"}, {Dims::thd, "thd"}};

// The dimensions of batch, tokens and heads; -1: there is none.
struct Places {
  std::int64_t batch, tokens, heads, dimensions;
};

// layout names the dimensions as "bthd" does, in any order, head_dim last.
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

class TorchThreads final : public rotary::Executor {
 public:
  unsigned concurrency() const noexcept override { return static_cast<unsigned>(at::get_num_threads()); }
  void run(std::int64_t count, std::int64_t grain, Body body, void* context) const override {
    at::parallel_for(0, count, grain, [=](std::int64_t begin, std::int64_t end) { body(context, begin, end); });
  }
};

// ---- tables --------------------------------------------------------------------------------------

std::vector<std::int64_t> shape_of(bool batched, int batch, std::int64_t tokens, int heads, int pairs) {
  if (heads > 1) return {batch, tokens, heads, pairs};
  return batched ? std::vector<std::int64_t>{batch, tokens, pairs} : std::vector<std::int64_t>{tokens, pairs};
}

Tensor tensor_of(std::span<const float> values, at::IntArrayRef shape) {
  Tensor t = at::empty(shape, at::kFloat);
  std::copy(values.begin(), values.end(), t.mutable_data_ptr<float>());
  return t;
}

// Positions from a tensor, as rotary::Table takes them; [tokens] of a rope of several axes are the same on each.
struct Positions {
  Positions(const Tensor& given, int rope_axes) {
    const at::ScalarType dtype = given.scalar_type();
    TORCH_CHECK(dtype == at::kLong || dtype == at::kInt || dtype == at::kDouble,
                "[table] positions must be int32, int64 or float64 but got ", dtype);
    const bool by_axis = rope_axes > 1 && given.dim() > 1;
    TORCH_CHECK(given.dim() >= 1 && given.dim() <= (by_axis ? 3 : 2), "[table] positions must be ",
                rope_axes > 1 ? "[tokens], [axes, tokens] or [axes, batch, tokens]" : "[tokens] or [batch, tokens]",
                " but got shape ", given.sizes());
    values = given.detach().to(at::kCPU, dtype == at::kDouble ? at::kDouble : at::kLong).contiguous();
    if (by_axis) axes = static_cast<int>(values.size(0));
    batched = values.dim() == (by_axis ? 3 : 2);
    if (batched) batch = static_cast<int>(values.size(-2));
  }

  rotary::Positions view() const {
    const auto count = static_cast<std::size_t>(values.numel());
    if (values.scalar_type() == at::kDouble) return {std::span(values.const_data_ptr<double>(), count), axes, batch};
    return {std::span(values.const_data_ptr<std::int64_t>(), count), axes, batch};
  }

  // The largest position + 1, at least 0.
  std::int64_t length() const {
    if (values.numel() == 0) return 0;
    constexpr double too_far = 0x1p62;
    const Tensor largest = values.max();
    const double real = largest.to(at::kDouble).item<double>();
    if (!(real > -1)) return 0;
    TORCH_CHECK(real < too_far, "[table] positions must be below 2^62 where the scaling looks at the length but got ",
                real);
    const bool whole = values.scalar_type() != at::kDouble;
    return (whole ? largest.item<std::int64_t>() : static_cast<std::int64_t>(std::floor(real))) + 1;
  }

  Tensor values;  // int64 or float64, on the CPU, contiguous
  int axes = 1, batch = 1;
  bool batched = false;  // the table has a batch dimension
};

// The table of these positions, which may be empty, on their device. Computed on torch's threads.
TableTensors rows_at(const rotary::Frequencies& frequencies, const Positions& at, at::Device device,
                     rotary::Angles angles = rotary::Angles::exact, rotary::Rounding rounding = rotary::Rounding::f32) {
  const auto shape = shape_of(at.batched, at.batch, at.values.size(-1), frequencies.head_rows, frequencies.pairs());
  if (at.values.numel() == 0) {
    const auto none = at::empty(shape, at::TensorOptions(device).dtype(at::kFloat));
    return {none, none.clone(), frequencies.pairing};
  }
  return translated([&] {
    const rotary::Table table(frequencies, at.view(), {angles, rounding, threads()});
    return TableTensors{tensor_of(table.cos(), shape).to(device), tensor_of(table.sin(), shape).to(device),
                        frequencies.pairing};
  });
}

// A table that borrows cos and sin from two tensors, which must outlive it: f32, contiguous, [tokens, pairs], [batch,
// tokens, pairs] or [batch, tokens, heads, pairs], with at least one pair; of tensors on a device a view that is not
// read. Throws rotary::Error.
rotary::Table borrowed(const Tensor& cos, const Tensor& sin, Pairing pairing) {
  const auto values = [](const Tensor& t) {
    return std::span(t.const_data_ptr<float>(), static_cast<std::size_t>(t.numel()));
  };
  return rotary::Table::borrow(values(cos), values(sin), static_cast<int>(cos.size(-1)), pairing,
                               cos.dim() > 2 ? static_cast<int>(cos.size(0)) : 1,
                               cos.dim() > 3 ? static_cast<int>(cos.size(2)) : 1);
}

// The rows of a table in a shape that broadcasts to `heads` heads laid out so. Heads of a group share a row.
Tensor spread(const Tensor& rows, const Places& places, const c10::SymInt& heads) {
  Tensor wide = rows.dim() == 2 ? rows.unsqueeze(0) : rows;
  wide = rows.dim() == 4 ? wide.repeat_interleave_symint(heads / rows.sym_size(2), 2) : wide.unsqueeze(2);
  if (places.tokens >= 0 && places.tokens < places.batch) wide = wide.transpose(0, 1);
  if (places.tokens < 0) wide = wide.squeeze(1);
  if (places.batch < 0) wide = wide.squeeze(0);
  return places.heads < 0 ? wide.squeeze(-2) : wide.movedim(-2, places.heads);
}

// The reverse of spread: sums `wide`, of the shape of spread(rows), to the shape of rows.
Tensor gathered(Tensor wide, const Tensor& rows, const Places& places) {
  wide = places.heads < 0 ? wide.unsqueeze(-2) : wide.movedim(places.heads, -2);
  if (places.batch < 0) wide = wide.unsqueeze(0);
  if (places.tokens < 0) wide = wide.unsqueeze(1);
  if (places.tokens >= 0 && places.tokens < places.batch) wide = wide.transpose(0, 1);
  if (rows.dim() < 4) return rows.dim() == 2 ? wide.squeeze(2).squeeze(0) : wide.squeeze(2);
  const c10::SymInt heads = rows.sym_size(2);
  return wide.unflatten_symint(2, {heads, wide.sym_size(2) / heads}).sum(3);
}

// ---- checks --------------------------------------------------------------------------------------

// "unset" is refused like an unknown word.
Pairing pairing_named(const char* operation, std::string_view word) {
  try {
    return rotary::parse_pairing(word);
  } catch (const rotary::Error&) {
    TORCH_CHECK(false, "[", operation, "] pairing must be half, interleaved or interleaved_to_half but got '", word,
                "'");
  }
}

// The values of a call of the op that passed check().
struct CheckedCall {
  Places places;
  Pairing pairing;
  std::int64_t first;
  Direction direction;
  c10::SymInt heads;
  Tensor cos, sin;  // in the type of the arithmetic: f64 for f64, else f32

  rotary::detail::Order order() const { return rotary::detail::order_of(pairing, direction); }
  Tensor spread(const Tensor& rows) const { return rotary_torch::spread(rows, places, heads); }
};

void check_kinds(const char* operation, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const auto is_float = [](const Tensor& t) {
    const at::ScalarType type = t.scalar_type();
    return type == at::kFloat || type == at::kHalf || type == at::kBFloat16 || type == at::kDouble;
  };
  TORCH_CHECK(is_float(cos) && is_float(sin), "[", operation, "] cos and sin must hold floats but got ",
              (is_float(cos) ? sin : cos).scalar_type());
  TORCH_CHECK(is_float(x), "[", operation, "] x must be float32, float16, bfloat16 or float64 but got ",
              x.scalar_type());
  TORCH_CHECK(x.device() == cos.device() && x.device() == sin.device(), "[", operation,
              "] x, cos and sin must be on one device but got ", x.device(), ", ", cos.device(), " and ", sin.device());
  TORCH_CHECK(x.layout() == at::kStrided && cos.layout() == at::kStrided && sin.layout() == at::kStrided, "[",
              operation, "] x, cos and sin must be dense but got ", x.layout(), ", ", cos.layout(), " and ",
              sin.layout());
}

// Works alike for real, meta and fake tensors, because sizes are compared as symbols.
CheckedCall check(const char* operation, const Tensor& x, const Tensor& cos, const Tensor& sin,
                  std::string_view pairing, std::string_view layout, std::int64_t first, Direction direction) {
  const Places places = places_of(operation, layout);
  const Pairing turned = pairing_named(operation, pairing);
  check_kinds(operation, x, cos, sin);
  TORCH_CHECK(cos.dim() >= 2 && cos.dim() <= 4 && cos.sym_sizes() == sin.sym_sizes(), "[", operation,
              "] cos and sin must both be [tokens, pairs], [batch, tokens, pairs] or [batch, tokens, heads, pairs] but "
              "got ",
              cos.sym_sizes(), " and ", sin.sym_sizes());
  TORCH_CHECK(x.dim() == places.dimensions, "[", operation, "] x must have the ", places.dimensions,
              " dimensions of layout \"", layout, "\" but got ", x.sym_sizes());
  const auto size = [&](std::int64_t at) { return at < 0 ? c10::SymInt(1) : x.sym_size(at); };
  const c10::SymInt rows = cos.sym_size(cos.dim() > 3 ? 1 : -2);
  TORCH_SYM_CHECK(rows.sym_eq(size(places.tokens)), "[", operation, "] the table must have a row for each token of x, ",
                  size(places.tokens), ", but has ", rows);
  if (cos.dim() > 2) {
    TORCH_SYM_CHECK(cos.sym_size(0).sym_eq(1).sym_or(cos.sym_size(0).sym_eq(size(places.batch))), "[", operation,
                    "] the table's batch must be 1 or that of x but got ", cos.sym_size(0), " and ",
                    size(places.batch));
  }
  const c10::SymInt width = cos.sym_size(-1) * 2;
  TORCH_SYM_CHECK(width.sym_gt(0), "[", operation, "] the table must have at least one pair but has none");
  TORCH_CHECK(first >= 0, "[", operation, "] first must not be negative but got ", first);
  TORCH_SYM_CHECK((x.sym_size(-1) - width).sym_ge(first), "[", operation, "] the ", width,
                  " elements that turn must lie inside the head_dim ", x.sym_size(-1), " of x but begin at ", first);
  const at::ScalarType wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const c10::SymInt heads = size(places.heads);
  if (cos.dim() > 3) {
    const c10::SymInt own = cos.sym_size(2);
    TORCH_SYM_CHECK(own.sym_gt(0), "[", operation, "] the table must have rows for at least one head but has none");
    TORCH_SYM_CHECK((heads % own).sym_eq(0), "[", operation, "] x must have a multiple of the ", own,
                    " heads that the table has rows for but has ", heads);
  }
  return {places, turned, first, direction, heads, cos.to(wide), sin.to(wide)};
}

// ---- kernels -------------------------------------------------------------------------------------

// An empty tensor with x's strides if they are dense and the innermost is 1, otherwise contiguous.
Tensor result_like(const Tensor& x) {
  if (x.sym_stride(-1) == 1) {
    Tensor out = at::empty_like(x);
    if (out.sym_stride(-1) == 1) return out;
  }
  return at::empty_symint(x.sym_sizes(), x.options());
}

// Views of the first and second members of the pairs, [..., pairs] each.
std::pair<Tensor, Tensor> members(const Tensor& x, const CheckedCall& call, bool interleaved) {
  const c10::SymInt pairs = call.cos.sym_size(-1);
  const Tensor block = x.narrow_symint(-1, call.first, pairs * 2);
  if (!interleaved) return {block.narrow_symint(-1, 0, pairs), block.narrow_symint(-1, pairs, pairs)};
  return {block.slice_symint(-1, 0, std::nullopt, 2), block.slice_symint(-1, 1, std::nullopt, 2)};
}

// Fills `out` with the rotation of x; elements that do not rotate are those of x. In place, out is x.
using Fill = void (*)(const Tensor& out, const Tensor& x, const CheckedCall& call);

// With torch's own ops: for f64 and for devices without kernels.
void fill_anywhere(const Tensor& out, const Tensor& x, const CheckedCall& call) {
  if (!out.is_same(x)) out.copy_(x);
  const auto [x0, x1] = members(x, call, call.order().read_interleaved);
  const auto [y0, y1] = members(out, call, call.order().write_interleaved);
  const Tensor a = x0.to(call.cos.scalar_type()), b = x1.to(call.cos.scalar_type());
  const Tensor c = call.spread(call.cos);
  const Tensor s = call.direction == Direction::backward ? -call.spread(call.sin) : call.spread(call.sin);
  const Tensor r0 = a * c - b * s;
  const Tensor r1 = b * c + a * s;
  y0.copy_(r0);
  y1.copy_(r1);
}

// torch's current stream of x's device. c10::Stream has native_handle since pytorch/pytorch#171040, of 2026.
template <class Stream = c10::Stream>
rotary::gpu::Stream stream_of(const Tensor& x) {
  if constexpr (requires(const Stream& s) { s.native_handle(); }) {
    const Stream stream = c10::impl::VirtualGuardImpl(x.device().type()).getStream(x.device());
    return static_cast<rotary::gpu::Stream>(stream.native_handle());
  } else {
    TORCH_CHECK(false,
                "[rotate] the CUDA kernels need a torch whose c10::Stream has native_handle but this one has not");
  }
}

// With rotary::rotate, or rotary::gpu::rotate.
void fill_by_kernels(const Tensor& out, const Tensor& x, const CheckedCall& call) {
  if (x.numel() == 0) return;
  if (x.scalar_type() == at::kDouble || (x.is_cuda() && !rotary::gpu::built())) return fill_anywhere(out, x, call);
  const bool in_place = out.is_same(x);
  if (x.stride(-1) != 1) {
    const Tensor dense = x.contiguous();
    fill_by_kernels(in_place ? dense : out, dense, call);
    if (in_place) out.copy_(dense);
    return;
  }
  if (call.first > 0 && !in_place) out.narrow(-1, 0, call.first).copy_(x.narrow(-1, 0, call.first));
  const int first = static_cast<int>(call.first), block = static_cast<int>(x.size(-1) - call.first);
  // In place, rows in x's own storage would change while they are read.
  const auto lasting = [&](const Tensor& t) {
    return in_place && t.is_alias_of(out) ? t.clone(at::MemoryFormat::Contiguous) : t.contiguous();
  };
  const Tensor cos = lasting(call.cos), sin = lasting(call.sin);
  const rotary::Table rows = translated([&] { return borrowed(cos, sin, call.pairing); });
  const rotary::ConstHeads whole(x.const_data_ptr(), dtype_of(x), layout_of(x, call.places));
  const rotary::ConstHeads from = rotary::slice(whole, first, block);
  const rotary::Heads room(out.mutable_data_ptr(), dtype_of(x), layout_of(out, call.places));
  const rotary::Heads to = rotary::slice(room, first, block);
  translated([&] {
    if (!x.is_cuda()) return rotary::rotate(from, to, rows, {.direction = call.direction, .executor = &threads()});
    const c10::DeviceGuard guard(x.device());
    const auto there = rotary::gpu::Table::borrow(rows.cos().data(), rows.sin().data(), rows.pairs(), call.pairing,
                                                  rows.tokens(), rows.batch(), rows.head_rows());
    rotary::gpu::rotate(from, to, there, {call.direction, stream_of(x)});
  });
}

void fill_nothing(const Tensor&, const Tensor&, const CheckedCall&) {}  // meta tensors

template <Fill fill>
Tensor rotate_by(const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view pairing,
                 std::string_view layout, std::int64_t first, bool backward) {
  const CheckedCall call = check(backward ? "rotate_backward" : "rotate", x, cos, sin, pairing, layout, first,
                                 backward ? Direction::backward : Direction::forward);
  const Tensor out = result_like(x);
  fill(out, x, call);
  return out;
}

template <Fill fill>
void rotate_in_place_by(const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view pairing,
                        std::string_view layout, std::int64_t first) {
  fill(x, x, check("rotate_", x, cos, sin, pairing, layout, first, Direction::forward));
}

Tensor call_op(const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view pairing, std::string_view layout,
               std::int64_t first, bool backward) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("rotary::rotate", "")
                             .typed<decltype(rotate_by<fill_by_kernels>)>();
  return op.call(x, cos, sin, pairing, layout, first, backward);
}

std::tuple<Tensor, Tensor> rotate_qk(const Tensor& q, const Tensor& k, const Tensor& cos, const Tensor& sin,
                                     std::string_view pairing, std::string_view layout, std::int64_t first,
                                     bool backward) {
  return {call_op(q, cos, sin, pairing, layout, first, backward),
          call_op(k, cos, sin, pairing, layout, first, backward)};
}

Tensor rotate_back(const Tensor& grad, const Tensor& cos, const Tensor& sin, std::string_view pairing,
                   std::string_view layout, std::int64_t first) {
  return call_op(grad, cos, sin, pairing, layout, first, true);
}

void call_in_place(const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view pairing,
                   std::string_view layout, std::int64_t first) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("rotary::rotate_", "")
                             .typed<decltype(rotate_in_place_by<fill_by_kernels>)>();
  op.call(x, cos, sin, pairing, layout, first);
}

// ---- the gradient --------------------------------------------------------------------------------

// With x -> y = rotate(x) and gy the gradient of y: y0 = a c - b s and y1 = b c + a s give, per row of the table,
// gc = sum over heads of a gy0 + b gy1 and gs = sum of a gy1 - b gy0. This is differentiable too. The transposed map
// has the same gradient, with the roles of x and gy exchanged.
variable_list table_gradient(const Tensor& x, const Tensor& gy, const Tensor& cos, const Tensor& sin,
                             CheckedCall call) {
  if (call.direction == Direction::backward) {
    call.direction = Direction::forward;
    return table_gradient(gy, x, cos, sin, call);
  }
  const auto [x0, x1] = members(x, call, call.order().read_interleaved);
  const auto [y0, y1] = members(gy, call, call.order().write_interleaved);
  const at::ScalarType wide = call.cos.scalar_type();
  const Tensor a = x0.to(wide), b = x1.to(wide), g0 = y0.to(wide), g1 = y1.to(wide);
  const auto gather = [&](const Tensor& per_head, const Tensor& rows) {
    const Tensor sum = per_head.sum_to_size_symint(call.spread(call.cos).sym_sizes());
    return gathered(sum, rows, call.places).to(rows.scalar_type());
  };
  return {gather(a * g0 + b * g1, cos), gather(a * g1 - b * g0, sin)};
}

// pairing, layout, first, backward
using Words = std::tuple<std::string, std::string, std::int64_t, bool>;

struct Rotation : torch::autograd::Function<Rotation> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& cos, const Tensor& sin,
                        const Words& words) {
    const bool table_learns = cos.requires_grad() || sin.requires_grad();
    context->save_for_backward(table_learns ? variable_list{cos, sin, x} : variable_list{cos, sin});
    context->saved_data["words"] = words;
    const at::AutoDispatchBelowADInplaceOrView below;
    return std::apply([&](const auto&... word) { return call_op(x, cos, sin, word...); }, words);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const auto [pairing, layout, first, was_backward] = context->saved_data["words"].to<Words>();
    const Tensor &grad = grads[0], &cos = saved[0], &sin = saved[1];
    variable_list result(4);  // one for each argument of forward
    if (context->needs_input_grad(0)) {
      result[0] = call_op(grad, cos, sin, pairing, layout, first, !was_backward);
    }
    if (saved.size() == 3 && (context->needs_input_grad(1) || context->needs_input_grad(2))) {
      const Direction direction = was_backward ? Direction::backward : Direction::forward;
      const CheckedCall call = check("rotate", saved[2], cos, sin, pairing, layout, first, direction);
      const variable_list table = table_gradient(saved[2], grad, cos, sin, call);
      result[1] = table[0];
      result[2] = table[1];
    }
    return result;
  }
};

bool has_tangent(const Tensor& t) { return t._fw_grad(0).defined(); }

Tensor rotate_autograd(const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view pairing,
                       std::string_view layout, std::int64_t first, bool backward) {
  const bool recorded = at::GradMode::is_enabled() && (x.requires_grad() || cos.requires_grad() || sin.requires_grad());
  if (recorded || has_tangent(x) || has_tangent(cos) || has_tangent(sin)) {
    return Rotation::apply(x, cos, sin, Words(pairing, layout, first, backward));
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_op(x, cos, sin, pairing, layout, first, backward);
}

void rotate_in_place_autograd(const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view pairing,
                              std::string_view layout, std::int64_t first) {
  TORCH_CHECK(!at::GradMode::is_enabled() || !(x.requires_grad() || cos.requires_grad() || sin.requires_grad()),
              "[rotate_] in place has no gradient: use rotate, or torch.no_grad()");
  TORCH_CHECK(!has_tangent(x) && !has_tangent(cos) && !has_tangent(sin),
              "[rotate_] x, cos and sin must have no tangent, as there is no forward mode, but got one");
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    call_in_place(x, cos, sin, pairing, layout, first);
  }
  if (!x.is_inference()) torch::autograd::increment_version(x);
}

// ---- rotary::table -------------------------------------------------------------------------------

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
  const TableTensors rows = rows_at(frequencies, Positions(positions, frequencies.axes()), positions.device());
  return {rows.cos, rows.sin};
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

// The exact rows. Their gradient is that of torch's own cos and sin, whose difference from themselves is 0.
CosSin table_autograd(const Tensor& positions, const Tensor& inv_freq, double attention_factor, at::IntArrayRef axis) {
  TORCH_CHECK(!at::GradMode::is_enabled() || !positions.requires_grad(),
              "[table] positions have no gradient: detach them");
  TORCH_CHECK(!has_tangent(positions) && !has_tangent(inv_freq),
              "[table] positions and inv_freq must have no tangent, as there is no forward mode, but got one");
  const auto [cos, sin] = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call_table(positions, inv_freq, attention_factor, axis);
  }();
  if (!at::GradMode::is_enabled() || !inv_freq.requires_grad()) return {cos, sin};
  const Tensor angles = per_pair(positions.to(inv_freq.device(), at::kDouble), axis) * inv_freq;
  const auto with_gradient = [=](const Tensor& rows, const Tensor& own) {
    return rows + ((own - own.detach()) * attention_factor).to(rows.device(), at::kFloat);
  };
  return {with_gradient(cos, angles.cos()), with_gradient(sin, angles.sin())};
}

}  // namespace

// ---- the C++ functions ---------------------------------------------------------------------------

const char* name(Dims dims) noexcept { return rotary::detail::name_in(all_dims, dims); }

const rotary::Executor& threads() noexcept {
  static const TorchThreads executor;
  return executor;
}

TableTensors tensors(const rotary::Table& table) {
  const auto shape = shape_of(table.batch() > 1, table.batch(), table.tokens(), table.head_rows(), table.pairs());
  return {tensor_of(table.cos(), shape), tensor_of(table.sin(), shape), table.pairing()};
}

TableTensors table(const rotary::Rope& rope, const Tensor& positions, rotary::Angles angles,
                   rotary::Rounding rounding) {
  const Positions at(positions, rope.axes());
  const std::int64_t length = rotary::depends_on_length(rope.scaling) ? at.length() : 0;
  const auto frequencies = translated([&] { return rotary::frequencies(rope, length); });
  return rows_at(frequencies, at, positions.device(), angles, rounding);
}

Tensor rotate(const Tensor& x, const TableTensors& t, Dims dims, std::int64_t first) {
  return call_op(x, t.cos, t.sin, rotary::name(t.pairing), name(dims), first, false);
}
Tensor rotate(const Tensor& x, const rotary::Table& table, Dims dims, std::int64_t first) {
  return rotate(x, tensors(table), dims, first);
}
void rotate_(const Tensor& x, const TableTensors& t, Dims dims, std::int64_t first) {
  call_in_place(x, t.cos, t.sin, rotary::name(t.pairing), name(dims), first);
}
Tensor rotate_backward(const Tensor& grad, const TableTensors& t, Dims dims, std::int64_t first) {
  return rotate_back(grad, t.cos, t.sin, rotary::name(t.pairing), name(dims), first);
}

std::pair<Tensor, Tensor> table(const Tensor& positions, const Tensor& inv_freq, double attention_factor,
                                at::IntArrayRef axis) {
  auto [cos, sin] = call_table(positions, inv_freq, attention_factor, axis);
  return {std::move(cos), std::move(sin)};
}

// ---- registration --------------------------------------------------------------------------------

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  using c10::DispatchKey;
  using torch::dispatch;
  const std::vector<at::Tag> tags{at::Tag::pt2_compliant_tag};
  m.def("rotate_backward(Tensor grad, Tensor cos, Tensor sin, str pairing, str layout, int first=0) -> Tensor", tags);
  m.impl("rotate_backward", dispatch(DispatchKey::CompositeImplicitAutograd, rotate_back));
  m.def("rotate_(Tensor(a!) x, Tensor cos, Tensor sin, str pairing, str layout, int first=0) -> ()", tags);
  m.impl("rotate_", dispatch(DispatchKey::CPU, rotate_in_place_by<fill_by_kernels>));
  m.impl("rotate_", dispatch(DispatchKey::CUDA, rotate_in_place_by<fill_by_kernels>));
  m.impl("rotate_", dispatch(DispatchKey::CompositeExplicitAutograd, rotate_in_place_by<fill_anywhere>));
  m.impl("rotate_", dispatch(DispatchKey::Meta, rotate_in_place_by<fill_nothing>));
  m.impl("rotate_", dispatch(DispatchKey::Autograd, rotate_in_place_autograd));

  m.def(
      "table(Tensor positions, Tensor inv_freq, float attention_factor=1.0, int[] axis=[]) -> (Tensor cos, Tensor sin)",
      tags);
  m.impl("table", dispatch(DispatchKey::CompositeExplicitAutograd, table_op));
  m.impl("table", dispatch(DispatchKey::Meta, table_meta));
  m.impl("table", dispatch(DispatchKey::Autograd, table_autograd));
  if (c10::Dispatcher::singleton().findSchema({"rotary::rotate", ""})) return;  // the Python package's
  m.def("rotate(Tensor x, Tensor cos, Tensor sin, str pairing, str layout, int first=0, bool backward=False) -> Tensor",
        tags);
  m.impl("rotate", dispatch(DispatchKey::CPU, rotate_by<fill_by_kernels>));
  m.impl("rotate", dispatch(DispatchKey::CUDA, rotate_by<fill_by_kernels>));
  m.impl("rotate", dispatch(DispatchKey::CompositeExplicitAutograd, rotate_by<fill_anywhere>));
  m.impl("rotate", dispatch(DispatchKey::Meta, rotate_by<fill_nothing>));
  m.impl("rotate", dispatch(DispatchKey::Autograd, rotate_autograd));
  m.def(
      "rotate_qk(Tensor q, Tensor k, Tensor cos, Tensor sin, str pairing, str layout, int first=0, "
      "bool backward=False) -> (Tensor, Tensor)",
      tags);
  m.impl("rotate_qk", dispatch(DispatchKey::CompositeImplicitAutograd, rotate_qk));
}

}  // namespace rotary_torch
