// rotary::rotate, rotary::rotate_ and rotary::rotate_backward: their checks, their kernels and their gradient.
#include "rotary_torch/op/op.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rotary_torch/op/bridge.h"
#include "values/pairings.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Direction;
using rotary::Pairing;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// ---- checks --------------------------------------------------------------------------------------

// "unset" is refused like an unknown word.
Pairing pairing_named(std::string_view operation, std::string_view word) {
  try {
    return rotary::parse_pairing(word);
  } catch (const rotary::Error&) {
    TORCH_CHECK(false, "[", operation, "] pairing must be half, interleaved or interleaved_to_half but got ", word);
  }
}

// One checked call.
struct Call {
  Places places;
  Pairing pairing;
  std::int64_t first;
  Direction direction;

  rotary::detail::Order order() const { return rotary::detail::order_of(pairing, direction); }
};

void check_kinds(std::string_view operation, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const at::ScalarType dtype = x.scalar_type();
  const bool wide = dtype == at::kDouble;
  TORCH_CHECK(wide || dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16, "[", operation,
              "] dtype must be f32, f16, bf16 or f64 but got ", dtype);
  const at::ScalarType expected = wide ? at::kDouble : at::kFloat;
  TORCH_CHECK(cos.scalar_type() == expected && sin.scalar_type() == expected, "[", operation, "] cos and sin must be ",
              wide ? "f64 where x is" : "f32", " but got ", cos.scalar_type(), " and ", sin.scalar_type());
  TORCH_CHECK(x.device() == cos.device() && x.device() == sin.device(), "[", operation,
              "] x, cos and sin must be on one device but got ", x.device(), ", ", cos.device(), " and ", sin.device());
  TORCH_CHECK(x.layout() == at::kStrided && cos.layout() == at::kStrided && sin.layout() == at::kStrided, "[",
              operation, "] x, cos and sin must be dense but got ", x.layout(), ", ", cos.layout(), " and ",
              sin.layout());
}

// Works alike for real, meta and fake tensors, because sizes are compared as symbols.
Call check(std::string_view operation, const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view pairing,
           std::string_view layout, std::int64_t first, Direction direction) {
  const Call call{places_of(dims_named(operation, layout)), pairing_named(operation, pairing), first, direction};
  check_kinds(operation, x, cos, sin);
  const std::int64_t dimensions = call.places.dimensions();
  TORCH_CHECK(x.dim() == dimensions, "[", operation, "] layout ", layout, " takes ", dimensions,
              " dimensions but x has shape ", x.sym_sizes());
  TORCH_CHECK((cos.dim() == 2 || cos.dim() == 3) && cos.dim() == sin.dim(), "[", operation,
              "] cos and sin must be [tokens, pairs] or [batch, tokens, pairs] but got ", cos.sym_sizes(), " and ",
              sin.sym_sizes());
  for (std::int64_t d = 0; d < cos.dim(); ++d) {
    TORCH_SYM_CHECK(cos.sym_size(d).sym_eq(sin.sym_size(d)), "[", operation,
                    "] cos and sin must have one shape but got ", cos.sym_sizes(), " and ", sin.sym_sizes());
  }
  const c10::SymInt tokens = x.sym_size(call.places.tokens);
  const c10::SymInt batch = call.places.batch < 0 ? c10::SymInt(1) : x.sym_size(call.places.batch);
  const c10::SymInt rotary_dim = cos.sym_size(-1) * 2;
  TORCH_SYM_CHECK(cos.sym_size(-2).sym_eq(tokens), "[", operation, "] table has ", cos.sym_size(-2), " rows but x has ",
                  tokens, " tokens");
  if (cos.dim() == 3) {
    TORCH_SYM_CHECK(cos.sym_size(0).sym_eq(1).sym_or(cos.sym_size(0).sym_eq(batch)), "[", operation, "] table has ",
                    cos.sym_size(0), " batch rows but x has ", batch);
  }
  TORCH_SYM_CHECK(rotary_dim.sym_gt(0), "[", operation, "] table must have at least one pair but has none");
  TORCH_CHECK(first >= 0, "[", operation, "] first must not be negative but got ", first);
  TORCH_SYM_CHECK((x.sym_size(-1) - rotary_dim).sym_ge(first), "[", operation, "] the ", rotary_dim,
                  " elements that rotate must lie inside head_dim ", x.sym_size(-1), " but begin at ", first);
  return call;
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
std::pair<Tensor, Tensor> members(const Tensor& x, const c10::SymInt& pairs, std::int64_t first, bool interleaved) {
  const Tensor block = x.narrow_symint(-1, first, pairs * 2);
  if (!interleaved) return {block.narrow_symint(-1, 0, pairs), block.narrow_symint(-1, pairs, pairs)};
  return {block.slice_symint(-1, 0, std::nullopt, 2), block.slice_symint(-1, 1, std::nullopt, 2)};
}

// The rows of a table in a shape that broadcasts to x: [.., tokens, .., pairs] with 1 for the heads.
Tensor spread(const Tensor& rows, const Places& places) {
  if (places.batch < 0) return (rows.dim() == 3 ? rows.squeeze(0) : rows).unsqueeze(1);
  const Tensor all = rows.dim() == 3 ? rows : rows.unsqueeze(0);
  return (places.batch < places.tokens ? all : all.transpose(0, 1)).unsqueeze(places.heads);
}

// How a rotation fills out, whose other elements are those of x; in place, out is x.
using Fill = void (*)(const Tensor& out, const Tensor& x, const Tensor& cos, const Tensor& sin, const Call& call);

// With torch's own ops, in f32 (f64 for f64): for f64 and for devices other than the CPU.
void fill_anywhere(const Tensor& out, const Tensor& x, const Tensor& cos, const Tensor& sin, const Call& call) {
  if (!out.is_same(x)) out.copy_(x);
  const c10::SymInt pairs = cos.sym_size(-1);
  const auto [x0, x1] = members(x, pairs, call.first, call.order().read_interleaved);
  const auto [y0, y1] = members(out, pairs, call.first, call.order().write_interleaved);
  const Tensor a = x0.to(cos.scalar_type());
  const Tensor b = x1.to(cos.scalar_type());
  const Tensor c = spread(cos, call.places);
  const Tensor s = call.direction == Direction::backward ? -spread(sin, call.places) : spread(sin, call.places);
  const Tensor r0 = a * c - b * s;
  const Tensor r1 = b * c + a * s;
  y0.copy_(r0);
  y1.copy_(r1);
}

// With rotary::rotate.
void fill_on_cpu(const Tensor& out, const Tensor& x, const Tensor& cos, const Tensor& sin, const Call& call) {
  if (x.numel() == 0) return;
  if (x.scalar_type() == at::kDouble) return fill_anywhere(out, x, cos, sin, call);
  const bool in_place = out.is_same(x);
  if (x.stride(-1) != 1) {
    const Tensor dense = x.contiguous();
    fill_on_cpu(in_place ? dense : out, dense, cos, sin, call);
    if (in_place) out.copy_(dense);
    return;
  }
  const int first = static_cast<int>(call.first), block = static_cast<int>(x.size(-1) - call.first);
  const rotary::Heads to = heads_of(out, call.places);
  const rotary::ConstHeads from = const_heads_of(x, call.places);
  if (call.first > 0 && !in_place) out.narrow(-1, 0, call.first).copy_(x.narrow(-1, 0, call.first));
  // In place, rows in x's own storage would change while they are read.
  const auto lasting = [&](const Tensor& t) { return in_place && t.is_alias_of(out) ? t.clone() : t; };
  translated([&] {
    const BorrowedTable rows(lasting(cos), lasting(sin), call.pairing);
    rotary::rotate(rotary::slice(from, first, block), rotary::slice(to, first, block), rows.table,
                   {call.direction, threads()});
  });
}

void fill_nothing(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Call&) {}  // meta tensors

template <Direction direction, Fill fill>
Tensor rotate_by(const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view pairing,
                 std::string_view layout, std::int64_t first) {
  constexpr std::string_view operation = direction == Direction::backward ? "rotate_backward" : "rotate";
  const Call call = check(operation, x, cos, sin, pairing, layout, first, direction);
  const Tensor out = result_like(x);
  fill(out, x, cos, sin, call);
  return out;
}

template <Fill fill>
void rotate_in_place_by(const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view pairing,
                        std::string_view layout, std::int64_t first) {
  fill(x, x, cos, sin, check("rotate_", x, cos, sin, pairing, layout, first, Direction::forward));
}

// ---- the gradient --------------------------------------------------------------------------------

template <Direction direction>
Tensor call_op(const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view pairing, std::string_view layout,
               std::int64_t first) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow(direction == Direction::backward ? "rotary::rotate_backward" : "rotary::rotate", "")
          .typed<decltype(rotate_by<direction, fill_on_cpu>)>();
  return op.call(x, cos, sin, pairing, layout, first);
}

// With x -> y = rotate(x) and gy the gradient of y: y0 = a c - b s and y1 = b c + a s give, per row of the table,
// gc = sum over heads of a gy0 + b gy1 and gs = sum of a gy1 - b gy0. This is differentiable too.
variable_list table_gradient(const Tensor& x, const Tensor& gy, const Tensor& cos, const Call& call) {
  const c10::SymInt pairs = cos.sym_size(-1);
  const rotary::detail::Order order = rotary::detail::order_of(call.pairing, Direction::forward);
  const auto [x0, x1] = members(x, pairs, call.first, order.read_interleaved);
  const auto [y0, y1] = members(gy, pairs, call.first, order.write_interleaved);
  const Tensor a = x0.to(cos.scalar_type()), b = x1.to(cos.scalar_type());
  const Tensor g0 = y0.to(cos.scalar_type()), g1 = y1.to(cos.scalar_type());
  const auto gather = [&](const Tensor& per_head) {
    Tensor rows = per_head.sum(call.places.heads);
    if (call.places.batch > call.places.tokens) rows = rows.transpose(0, 1);
    if (call.places.batch < 0 && cos.dim() == 3) rows = rows.unsqueeze(0);
    return rows.sum_to_size_symint(cos.sym_sizes());
  };
  return {gather(a * g0 + b * g1), gather(a * g1 - b * g0)};
}

constexpr Direction other(Direction direction) {
  return direction == Direction::backward ? Direction::forward : Direction::backward;
}

// rotate and rotate_backward: each is the other's gradient in x, and both have the same gradient in the table, with the
// roles of the input and the incoming gradient exchanged.
template <Direction direction>
struct Rotation : torch::autograd::Function<Rotation<direction>> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& cos, const Tensor& sin,
                        const std::string& pairing, const std::string& layout, std::int64_t first) {
    const bool table_learns = cos.requires_grad() || sin.requires_grad();
    context->save_for_backward(table_learns ? variable_list{cos, sin, x} : variable_list{cos, sin});
    context->saved_data["pairing"] = pairing;
    context->saved_data["layout"] = layout;
    context->saved_data["first"] = first;
    const at::AutoDispatchBelowADInplaceOrView below;
    return call_op<direction>(x, cos, sin, pairing, layout, first);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const std::string& pairing = context->saved_data["pairing"].toStringRef();
    const std::string& layout = context->saved_data["layout"].toStringRef();
    const std::int64_t first = context->saved_data["first"].toInt();
    const Tensor &grad = grads[0], &cos = saved[0], &sin = saved[1];
    variable_list result(6);  // one for each argument of forward
    if (context->needs_input_grad(0)) result[0] = call_op<other(direction)>(grad, cos, sin, pairing, layout, first);
    if (saved.size() == 3 && (context->needs_input_grad(1) || context->needs_input_grad(2))) {
      const Tensor& x = saved[2];
      const Call call{places_of(dims_named("rotate", layout)), pairing_named("rotate", pairing), first, direction};
      const bool forward = direction == Direction::forward;
      const variable_list table = forward ? table_gradient(x, grad, cos, call) : table_gradient(grad, x, cos, call);
      result[1] = table[0];
      result[2] = table[1];
    }
    return result;
  }
};

template <Direction direction>
Tensor rotate_autograd(const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view pairing,
                       std::string_view layout, std::int64_t first) {
  const auto tangent = [](const Tensor& t) { return t._fw_grad(0).defined(); };
  const bool recorded = at::GradMode::is_enabled() && (x.requires_grad() || cos.requires_grad() || sin.requires_grad());
  if (recorded || tangent(x) || tangent(cos) || tangent(sin)) {
    return Rotation<direction>::apply(x, cos, sin, std::string(pairing), std::string(layout), first);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_op<direction>(x, cos, sin, pairing, layout, first);
}

void call_in_place(const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view pairing,
                   std::string_view layout, std::int64_t first) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("rotary::rotate_", "")
                             .typed<decltype(rotate_in_place_by<fill_on_cpu>)>();
  op.call(x, cos, sin, pairing, layout, first);
}

void rotate_in_place_autograd(const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view pairing,
                              std::string_view layout, std::int64_t first) {
  TORCH_CHECK(!at::GradMode::is_enabled() || !(x.requires_grad() || cos.requires_grad() || sin.requires_grad()),
              "[rotate_] in place has no gradient: use rotate, or torch.no_grad()");
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    call_in_place(x, cos, sin, pairing, layout, first);
  }
  if (!x.is_inference()) torch::autograd::increment_version(x);
}

}  // namespace

// ---- the C++ functions --------------------------------------------------------------------------------

Tensor rotate(const Tensor& x, const TableTensors& t, Dims dims, std::int64_t first) {
  return call_op<Direction::forward>(x, t.cos, t.sin, rotary::name(t.pairing), name(dims), first);
}
Tensor rotate(const Tensor& x, const rotary::Table& table, Dims dims, std::int64_t first) {
  return rotate(x, tensors(table), dims, first);
}
void rotate_(const Tensor& x, const TableTensors& t, Dims dims, std::int64_t first) {
  call_in_place(x, t.cos, t.sin, rotary::name(t.pairing), name(dims), first);
}
Tensor rotate_backward(const Tensor& grad, const TableTensors& t, Dims dims, std::int64_t first) {
  return call_op<Direction::backward>(grad, t.cos, t.sin, rotary::name(t.pairing), name(dims), first);
}

// ---- registration --------------------------------------------------------------------------------

TORCH_LIBRARY(rotary, m) {
  const std::vector<at::Tag> tags{at::Tag::pt2_compliant_tag};
  m.def("rotate(Tensor x, Tensor cos, Tensor sin, str pairing, str layout, int first=0) -> Tensor", tags);
  m.def("rotate_backward(Tensor grad, Tensor cos, Tensor sin, str pairing, str layout, int first=0) -> Tensor", tags);
  m.def("rotate_(Tensor(a!) x, Tensor cos, Tensor sin, str pairing, str layout, int first=0) -> ()", tags);
  m.def(
      "table(Tensor positions, Tensor inv_freq, float attention_factor=1.0, int[] axis=[]) -> (Tensor cos, Tensor sin)",
      tags);
}
TORCH_LIBRARY_IMPL(rotary, CPU, m) {
  m.impl("rotate", rotate_by<Direction::forward, fill_on_cpu>);
  m.impl("rotate_backward", rotate_by<Direction::backward, fill_on_cpu>);
  m.impl("rotate_", rotate_in_place_by<fill_on_cpu>);
}
TORCH_LIBRARY_IMPL(rotary, CompositeExplicitAutograd, m) {
  m.impl("rotate", rotate_by<Direction::forward, fill_anywhere>);
  m.impl("rotate_backward", rotate_by<Direction::backward, fill_anywhere>);
  m.impl("rotate_", rotate_in_place_by<fill_anywhere>);
}
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("rotate", rotate_by<Direction::forward, fill_nothing>);
  m.impl("rotate_backward", rotate_by<Direction::backward, fill_nothing>);
  m.impl("rotate_", rotate_in_place_by<fill_nothing>);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("rotate", rotate_autograd<Direction::forward>);
  m.impl("rotate_backward", rotate_autograd<Direction::backward>);
  m.impl("rotate_", rotate_in_place_autograd);
}

}  // namespace rotary_torch
