#include "module.h"

#include "given.h"
#include "rotary/gpu.h"

namespace rotary::python {

namespace {

constexpr const char* gpu_operation = "rotate";

Ref gpu_built() { return Ref(PyBool_FromLong(gpu::built() ? 1 : 0)); }

// A view of rows in the device's memory, which is not copied.
gpu::Table table_of(const ArrayView& cos, const ArrayView& sin, PyObject* pairing) {
  for (const ArrayView* rows : {&cos, &sin}) {
    const bool fits = rows->type == ElementType::f32 && rows->ndim >= 2 && rows->ndim <= 4 &&
                      rows->shape == cos.shape && rows->is_contiguous();
    if (!fits) fail(Code::SHAPE, gpu_operation, "cos and sin must be contiguous f32 rows but got ", rows->shape_text());
  }
  const auto rank = static_cast<std::size_t>(cos.ndim);
  const int batch = rank > 2 ? static_cast<int>(cos.shape[0]) : 1;
  const int heads = rank > 3 ? static_cast<int>(cos.shape[2]) : 1;
  return gpu::Table::borrow(static_cast<const float*>(cos.data), static_cast<const float*>(sin.data),
                            static_cast<int>(cos.shape[rank - 1]), parse_pairing(view_of(pairing, "pairing")),
                            cos.shape[rank > 3 ? 1 : rank - 2], batch, heads);
}

// What one tensor of a call is, and where its result goes, from the element `first` of each head on.
struct DeviceOperand {
  DeviceOperand(PyObject* in, PyObject* out, const char* name, const LayoutWord& layout, std::int64_t first)
      : from(in, name, false, Memory::cuda),
        to(out, "out", false, Memory::cuda),
        pair{const_heads(from, layout, name), writable_heads(to, layout, "out")} {
    const int head_dim = pair.in.layout.head_dim;
    if (first < 0 || first > head_dim) {
      fail(Code::SHAPE, gpu_operation, "first must be an element of the head but got ", first);
    }
    const int begin = static_cast<int>(first);
    pair = {slice(pair.in, begin, head_dim - begin), slice(pair.out, begin, head_dim - begin)};
  }
  ArrayView from, to;
  InOut pair;
};

Ref gpu_rotate(PyObject* q, PyObject* k, PyObject* q_out, PyObject* k_out, PyObject* cos, PyObject* sin,
               PyObject* pairing, PyObject* word, PyObject* first_element, PyObject* backward, PyObject* stream) {
  const LayoutWord layout(word, gpu_operation);
  const std::int64_t first = integer_of(first_element, "first");
  const ArrayView c(cos, "cos", false, Memory::cuda), s(sin, "sin", false, Memory::cuda);
  const gpu::Table table = table_of(c, s, pairing);
  const gpu::RotateOptions options(
      is_true(backward) ? Direction::backward : Direction::forward,
      reinterpret_cast<gpu::Stream>(static_cast<std::uintptr_t>(integer_of(stream, "stream"))));
  const DeviceOperand query(q, q_out, "q", layout, first);
  if (k == Py_None) {
    gpu::rotate(query.pair.in, query.pair.out, table, options);
  } else {
    const DeviceOperand key(k, k_out, "k", layout, first);
    gpu::rotate_qk(query.pair, key.pair, table, options);
  }
  return none();
}

}  // namespace

std::vector<PyMethodDef> gpu_methods() { return {method<gpu_built>("_gpu_built"), method<gpu_rotate>("_gpu_rotate")}; }

}  // namespace rotary::python
