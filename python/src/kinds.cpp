#include <string>

#include "arrays.h"

namespace rotary::python {

namespace {

struct KnownType {
  Kind kind = Kind::other;
  const void* exchange = nullptr;
};
Seen<KnownType> known_types;

bool has_attribute(PyObject* object, const char* name) { return static_cast<bool>(attribute_or_null(object, name)); }

std::string package_of(PyObject* type) {
  const Ref module = attribute_or_null(type, "__module__");
  if (!module || PyUnicode_Check(module.get()) == 0) return "";
  const std::string path = text_of(module.get(), "__module__");
  return path.substr(0, path.find('.'));
}

// Whether one of its bases is JAX's Tracer: it stands for an array inside jit, grad or vmap.
bool is_traced(PyObject* type) {
  const Ref bases = checked(PyObject_GetAttrString(type, "__mro__"));
  for (Py_ssize_t i = 0; i < PyTuple_Size(bases.get()); ++i) {
    const Ref name = checked(PyObject_GetAttrString(PyTuple_GetItem(bases.get(), i), "__name__"));
    if (text_of(name.get(), "__name__") == "Tracer") return true;
  }
  return false;
}

Kind find_kind(PyObject* type) {
  if (has_attribute(type, "__array_struct__")) return Kind::numpy;
  if (has_attribute(type, "__torch_function__")) return Kind::torch;
  const std::string package = package_of(type);
  if (package == "jax" || package == "jaxlib") return is_traced(type) ? Kind::traced : Kind::jax;
  return has_attribute(type, "__dlpack__") ? Kind::other : Kind::buffer;
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

// Of JAX an array of numpy of the same dtype; else what rotary._memory.empty makes.
Ref empty_of_others(PyObject* object, const ArrayView& view) {
  Ref shape = checked(PyTuple_New(view.ndim));
  for (int d = 0; d < view.ndim; ++d) {
    checked(PyTuple_SetItem(shape.get(), d, PyLong_FromLongLong(view.shape[static_cast<std::size_t>(d)])));
  }
  if (view.kind != Kind::jax) {
    const Ref make = module_function("rotary._memory", "empty"), type = new_text(name(view.type));
    return checked(PyObject_CallFunctionObjArgs(make.get(), type.get(), shape.get(), nullptr));
  }
  const Ref make = module_function("numpy", "empty"), type = checked(PyObject_GetAttrString(object, "dtype"));
  return checked(PyObject_CallFunctionObjArgs(make.get(), shape.get(), type.get(), nullptr));
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
  return empty_of_others(object, view);
}

Ref finished(Ref made, Kind kind) {
  if (kind != Kind::jax) return made;
  const Ref convert = module_function("jax.numpy", "asarray");
  return checked(PyObject_CallFunctionObjArgs(convert.get(), made.get(), nullptr));
}

}  // namespace rotary::python
