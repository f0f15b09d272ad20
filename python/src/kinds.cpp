#include "arrays.h"

#include <string>

#include "memory.h"

namespace rotary::python {

namespace {

struct KnownType {
  PyObject* type = nullptr;  // a reference that is kept
  Kind kind = Kind::other;
  const void* exchange = nullptr;
};
constexpr std::size_t most_types = 8;
KnownType known_types[most_types];
std::size_t next_type = 0;

bool has_attribute(PyObject* object, const char* name) {
  const Ref found(PyObject_GetAttrString(object, name));
  if (!found) PyErr_Clear();
  return static_cast<bool>(found);
}

std::string module_of(PyObject* type) {
  const Ref module(PyObject_GetAttrString(type, "__module__"));
  if (!module || PyUnicode_Check(module.get()) == 0) {
    PyErr_Clear();
    return "";
  }
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
  const std::string module = module_of(type);
  if (module == "jax" || module == "jaxlib") return is_traced(type) ? Kind::traced : Kind::jax;
  return has_attribute(type, "__dlpack__") ? Kind::other : Kind::buffer;
}

const void* find_exchange(PyObject* type) {
  const Ref capsule(PyObject_GetAttrString(type, "__dlpack_c_exchange_api__"));
  if (!capsule || PyCapsule_IsValid(capsule.get(), "dlpack_exchange_api") == 0) {
    PyErr_Clear();
    return nullptr;
  }
  const auto* api =
      static_cast<const dlpack::ExchangeHeader*>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  while (api != nullptr && api->version.major != 1) api = api->older;
  return api;
}

const KnownType& known(PyObject* object) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  for (const KnownType& one : known_types) {
    if (one.type == type) return one;
  }
  KnownType& place = known_types[next_type];
  next_type = (next_type + 1) % most_types;
  KnownType found{Ref::borrowed(type).release(), find_kind(type), find_exchange(type)};
  const Ref old(place.type);
  place = found;
  return place;
}

// What numpy.empty_like calls when no other library overrides it, which takes half its time; else that itself.
Ref numpy_empty_like() {
  Ref function = module_function("numpy", "empty_like");
  Ref inside(PyObject_GetAttrString(function.get(), "_implementation"));
  if (!inside) PyErr_Clear();
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

Ref module_function(const char* module_name, const char* name) {
  const Ref module = checked(PyImport_ImportModule(module_name));
  return checked(PyObject_GetAttrString(module.get(), name));
}

Kind kind_of(PyObject* object) { return known(object).kind; }

const void* exchange_of(PyObject* object) { return known(object).exchange; }

bool gradients_are_recorded() {
  static PyObject* const asked = module_function("torch", "is_grad_enabled").release();
  const Ref enabled = checked(PyObject_CallObject(asked, nullptr));
  return PyObject_IsTrue(enabled.get()) == 1;
}

Ref empty_like(PyObject* object, const ArrayView& view) {
  static PyObject* const c_order = PyUnicode_InternFromString("C");
  const bool keeps = head_dim_is_innermost(view);
  if (view.kind == Kind::numpy) {
    static PyObject* const make = numpy_empty_like().release();
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
  return new_memory(view.type, {view.shape.data(), static_cast<std::size_t>(view.ndim)});
}

Ref finished(Ref made, Kind kind) {
  if (kind == Kind::numpy || kind == Kind::torch) return made;
  if (kind != Kind::jax) return array_of_memory(made.get());
  const Ref from = module_function("jax.dlpack", "from_dlpack");
  return checked(PyObject_CallFunctionObjArgs(from.get(), made.get(), nullptr));
}

}  // namespace rotary::python
