#include <string>

#include "arrays.h"
#include "values.h"

namespace rotary::python {

namespace {

struct KnownType {
  Kind kind = Kind::other;
  const void* exchange = nullptr;
};
Seen<KnownType> known_types;

Kind find_kind(PyObject* type) {
  const Ref find = module_function("rotary._memory", "kind_of");
  const Ref found = checked(PyObject_CallFunctionObjArgs(find.get(), type, nullptr));
  return static_cast<Kind>(integer_of(found.get(), "kind"));
}

const void* find_exchange(PyObject* type) {
  const Ref capsule = attribute_or_null(type, "__dlpack_c_exchange_api__");
  if (!capsule || PyCapsule_IsValid(capsule.get(), "dlpack_exchange_api") == 0) return nullptr;
  const auto* api =
      static_cast<const dlpack::ExchangeHeader*>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  while (api != nullptr && api->version.major != 1) api = api->older;
  return api;
}

const KnownType& known(PyObject* object) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (const KnownType* found = known_types.find(type)) return *found;
  return known_types.keep(type, {find_kind(type), find_exchange(type)});
}

// What numpy.empty_like calls when no other library overrides it, which takes half its time; else that itself.
Ref numpy_empty_like() {
  Ref function = module_function("numpy", "empty_like");
  Ref inside = attribute_or_null(function.get(), "_implementation");
  return inside ? std::move(inside) : std::move(function);
}

// Else (a broadcast array, for one) a new array in the order of the strides would have another innermost dimension.
bool head_dim_is_innermost(const ArrayView& view) {
  const auto item = static_cast<std::int64_t>(bits_of(view.type) / 8);
  for (std::size_t d = 0; d + 1 < static_cast<std::size_t>(view.ndim); ++d) {
    if (view.shape[d] > 1 && view.strides[d] <= item) return false;
  }
  return true;
}

}  // namespace

Kind kind_of(PyObject* object) { return known(object).kind; }

const void* exchange_of(PyObject* object) { return known(object).exchange; }

bool gradients_are_recorded() {
  static PyObject* const asked = module_function("torch", "is_grad_enabled").release();
  const Ref enabled = checked(PyObject_CallObject(asked, nullptr));
  return is_true(enabled.get());
}

Ref empty_like(PyObject* object, const ArrayView& view) {
  const bool keeps = head_dim_is_innermost(view);
  if (view.kind == Kind::numpy) {
    static PyObject* const make = numpy_empty_like().release();
    static PyObject* const c_order = PyUnicode_InternFromString("C");
    if (keeps) return checked(PyObject_CallFunctionObjArgs(make, object, nullptr));
    return checked(PyObject_CallFunctionObjArgs(make, object, Py_None, c_order, nullptr));
  }
  if (view.kind == Kind::torch) {
    static PyObject* const make = module_function("torch", "empty_like").release();
    if (keeps) return checked(PyObject_CallFunctionObjArgs(make, object, nullptr));
    static PyObject* const contiguous = module_function("torch", "contiguous_format").release();
    const Ref arguments = checked(PyTuple_Pack(1, object)), words = checked(PyDict_New());
    checked(PyDict_SetItemString(words.get(), "memory_format", contiguous));
    return checked(PyObject_Call(make, arguments.get(), words.get()));
  }
  const Ref make = module_function("rotary._memory", "empty"), type = new_text(name(view.type));
  const Ref shape = tuple_of({view.shape.data(), static_cast<std::size_t>(view.ndim)});
  PyObject* like = view.kind == Kind::jax ? object : Py_None;
  return checked(PyObject_CallFunctionObjArgs(make.get(), type.get(), shape.get(), like, nullptr));
}

Ref finished(Ref made, Kind kind) {
  if (kind != Kind::jax) return made;
  const Ref convert = module_function("jax.numpy", "asarray");
  return checked(PyObject_CallFunctionObjArgs(convert.get(), made.get(), nullptr));
}

}  // namespace rotary::python
