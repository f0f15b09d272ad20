#include <bit>
#include <cstring>
#include <vector>

#include "heads_view.h"
#include "module.h"
#include "rotary/rotary.h"
#include "xla_frame.h"

namespace rotary::python {

namespace {

using xla::Buffer;
using xla::Call;
using xla::DataType;

// A dimension of the result but the last. Strides are in elements, of the rows in rows; 0: one value serves all.
struct Axis {
  std::int64_t size, in, out, rows;
};

// The dimensions of a result that are not 1, neighbours that are one run of memory joined.
std::vector<Axis> axes_of(const Call& call, const Buffer& x, const Buffer& out, const Buffer& rows) {
  std::vector<Axis> axes;
  std::int64_t in_run = x.dimensions[x.rank - 1], out_run = in_run, row_run = 1;
  for (std::int64_t d = out.rank - 2; d >= 0; --d) {
    const std::int64_t size = out.dimensions[d], in_size = x.dimensions[d], row_size = rows.dimensions[d];
    if ((in_size != size && in_size != 1) || (row_size != size && row_size != 1)) {
      call.refuse("x and cos must each have the size of the result or 1 but got " + shape_text(x) + " and " +
                  shape_text(rows) + " for " + shape_text(out));
    }
    const Axis axis{size, in_size == 1 ? 0 : in_run, out_run, row_size == 1 ? 0 : row_run};
    in_run *= in_size;
    out_run *= size;
    row_run *= row_size;
    if (size == 1) continue;
    Axis* inner = axes.empty() ? nullptr : &axes.back();
    if (inner != nullptr && axis.in == inner->in * inner->size && axis.out == inner->out * inner->size &&
        axis.rows == inner->rows * inner->size) {
      inner->size *= size;
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

// Removes and returns the first axis, from the innermost, whose rows are that far apart; else one of size 1.
Axis take(std::vector<Axis>& axes, std::int64_t row_stride) {
  for (auto axis = axes.begin(); axis != axes.end(); ++axis) {
    if (axis->rows != row_stride) continue;
    const Axis taken = *axis;
    axes.erase(axis);
    return taken;
  }
  return {1, 0, 0, row_stride};
}

struct Rotation {
  const float* cos;
  const float* sin;
  std::int64_t pairs;
  Pairing pairing;
  std::int64_t first;
  RotateOptions options;
};

// Tokens, heads and batch are what a table and the kernels know; further axes are gone through one by one.
class Tensor {
 public:
  Tensor(const Call& call, const Buffer& x, const Buffer& out, const Buffer& rows)
      : in_(static_cast<std::byte*>(x.data)),
        out_(static_cast<std::byte*>(out.data)),
        head_dim_(out.dimensions[out.rank - 1]),
        axes_(axes_of(call, x, out, rows)) {
    dtype_ = x.type == DataType::f32 ? DType::f32 : x.type == DataType::f16 ? DType::f16 : DType::bf16;
    const bool known = x.type == DataType::f32 || x.type == DataType::f16 || x.type == DataType::bf16;
    if (!known || out.type != x.type) call.refuse("x and its result must both be f32, f16 or bf16");
    tokens_ = take(axes_, 1);
    heads_ = take(axes_, 0);
    batch_ = take(axes_, tokens_.size);
    if (batch_.size == 1) batch_ = take(axes_, 0);
  }

  void rotate(const Rotation& rotation) const { rotate_from(rotation, axes_.size(), 0, 0, 0); }

 private:
  void rotate_from(const Rotation& rotation, std::size_t left, std::int64_t in, std::int64_t out,
                   std::int64_t rows) const {
    if (left == 0) return rotate_block(rotation, in, out, rows);
    const Axis& axis = axes_[left - 1];  // the outermost first
    for (std::int64_t i = 0; i < axis.size; ++i) {
      rotate_from(rotation, left - 1, in + i * axis.in, out + i * axis.out, rows + i * axis.rows);
    }
  }

  void rotate_block(const Rotation& rotation, std::int64_t in, std::int64_t out, std::int64_t rows) const {
    const auto item = static_cast<std::int64_t>(size_of(dtype_));
    const bool batched = batch_.size > 1 && batch_.rows != 0;
    const auto count = static_cast<std::size_t>((batched ? batch_.size : 1) * tokens_.size * rotation.pairs);
    const Table table =
        Table::borrow({rotation.cos + rows * rotation.pairs, count}, {rotation.sin + rows * rotation.pairs, count},
                      static_cast<int>(rotation.pairs), rotation.pairing, batched ? static_cast<int>(batch_.size) : 1);
    const auto layout = [&](std::int64_t Axis::*stride) {
      return Layout{batch_.size,    tokens_.size,    heads_.size,   static_cast<int>(head_dim_),
                    batch_.*stride, tokens_.*stride, heads_.*stride};
    };
    const Heads to{out_ + out * item, dtype_, layout(&Axis::out)};
    if (in_ == out_) return rotary::rotate(from_first(to, rotation.first), table, rotation.options);
    const ConstHeads from{in_ + in * item, dtype_, layout(&Axis::in)};
    rotary::rotate(from_first(from, rotation.first), from_first(to, rotation.first), table, rotation.options);
    copy_before(from, to, rotation.first);
  }

  std::byte* in_;
  std::byte* out_;
  std::int64_t head_dim_;
  std::vector<Axis> axes_;  // the innermost first
  Axis tokens_{}, heads_{}, batch_{};
  DType dtype_;
};

// (x, ..., cos, sin) -> (turned x, ...): f32 rows [..., pairs] and x [..., head_dim] of one rank, each dimension but
// the last that of the result or 1. A result may be in the memory of its x.
void rotate(const Call& call, const Executor& executor) {
  const std::int64_t tensors = call.results();
  if (call.arguments() != tensors + 2) call.refuse("there must be a result for each operand but cos and sin");
  const Buffer &cos = call.argument(tensors), &sin = call.argument(tensors + 1);
  if (cos.type != DataType::f32 || sin.type != DataType::f32 || cos.rank < 1 || shape_text(cos) != shape_text(sin)) {
    call.refuse("cos and sin must be f32 of one shape but got " + shape_text(cos) + " and " + shape_text(sin));
  }
  const Direction direction = call.integer("backward") != 0 ? Direction::backward : Direction::forward;
  const Rotation rotation{static_cast<const float*>(cos.data),
                          static_cast<const float*>(sin.data),
                          cos.dimensions[cos.rank - 1],
                          parse_pairing(call.text("pairing")),
                          call.integer("first"),
                          {direction, executor}};
  for (std::int64_t i = 0; i < tensors; ++i) {
    const Buffer &x = call.argument(i), &out = call.result(i);
    if (x.rank != cos.rank || out.rank != cos.rank || rotation.first < 0 ||
        rotation.first + 2 * rotation.pairs > out.dimensions[out.rank - 1] ||
        x.dimensions[x.rank - 1] != out.dimensions[out.rank - 1]) {
      call.refuse("x must have the rank of cos and room for the pairs but got " + shape_text(x) + " and " +
                  shape_text(cos));
    }
    const Tensor tensor(call, x, out, cos);
    if (elements(out) > 0) tensor.rotate(rotation);
  }
}

// Positions [axes, ...], int32 or int64 -> exact cos and sin, f32 [..., pairs].
void make_rows(const Call& call, const Executor& executor) {
  if (call.arguments() != 1 || call.results() != 2) call.refuse("positions must give cos and sin");
  const Buffer &positions = call.argument(0), &cos = call.result(0), &sin = call.result(1);
  Frequencies frequencies;
  for (const std::int64_t bits : call.integers("inv_freq")) {
    frequencies.inv_freq.push_back(std::bit_cast<double>(bits));
  }
  for (const std::int64_t axis : call.integers("axis")) frequencies.axis.push_back(static_cast<std::uint8_t>(axis));
  frequencies.attention_factor = std::bit_cast<double>(call.integer("attention_factor"));
  frequencies.clockwise = call.integer("clockwise") != 0;
  frequencies.pairing = Pairing::half;  // rows do not depend on it
  const std::int64_t count = elements(positions), size = elements(cos);
  const auto pairs = static_cast<std::int64_t>(frequencies.inv_freq.size());
  const std::int64_t axes = positions.rank < 1 ? 0 : positions.dimensions[0];
  if (cos.type != DataType::f32 || sin.type != DataType::f32 || elements(sin) != size || axes < 1 ||
      size != count / axes * pairs) {
    call.refuse("positions must be [axes, ...] and cos and sin f32 [..., pairs] but got " + shape_text(positions) +
                ", " + shape_text(cos) + " and " + shape_text(sin));
  }
  if (size == 0) return;
  const auto fill = [&](const auto* values) {
    const Positions given(std::span(values, static_cast<std::size_t>(count)), static_cast<int>(axes));
    const Table table(frequencies, given, executor);
    std::memcpy(cos.data, table.cos().data(), static_cast<std::size_t>(size) * sizeof(float));
    std::memcpy(sin.data, table.sin().data(), static_cast<std::size_t>(size) * sizeof(float));
  };
  if (positions.type == DataType::s32) return fill(static_cast<const std::int32_t*>(positions.data));
  if (positions.type == DataType::s64) return fill(static_cast<const std::int64_t*>(positions.data));
  call.refuse("positions must be int32 or int64");
}

xla::ErrorMessage* rotate_handler(xla::CallFrame* frame) { return xla::handle(frame, "rotate", rotate); }
xla::ErrorMessage* rows_handler(xla::CallFrame* frame) { return xla::handle(frame, "table", make_rows); }

void add(PyObject* targets, const char* name, xla::Handler* handler) {
  const Ref capsule = checked(PyCapsule_New(reinterpret_cast<void*>(handler), "xla._CUSTOM_CALL_TARGET", nullptr));
  checked(PyDict_SetItemString(targets, name, capsule.get()));
}

}  // namespace

PyObject* xla_targets(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    Ref targets = checked(PyDict_New());
    add(targets.get(), "rotary_rotate", rotate_handler);
    add(targets.get(), "rotary_rows", rows_handler);
    return targets.release();
  });
}

}  // namespace rotary::python
