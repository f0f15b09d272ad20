#include "memory.h"

#include <algorithm>
#include <new>

#include "arrays.h"
#include "dlpack.h"

namespace rotary::python {

namespace {

struct MemoryObject {
  PyObject_HEAD PyObject* owner;  // keeps the memory
  void* data;
  ElementType type;
  bool read_only;
  int ndim;
  Py_ssize_t shape[most_dimensions];
  Py_ssize_t strides[most_dimensions];  // in bytes
};

MemoryObject& object_of(PyObject* self) { return *reinterpret_cast<MemoryObject*>(self); }

const char* format_of(ElementType type) {
  switch (type) {
    case ElementType::f16:
      return "e";
    case ElementType::f32:
      return "f";
    case ElementType::f64:
      return "d";
    case ElementType::i64:
      return "q";
    default:
      return nullptr;
  }
}

void free_memory(PyObject* capsule) {
  ::operator delete (PyCapsule_GetPointer(capsule, "rotary memory"), std::align_val_t{64});
}

// ---- buffer ----

// For numpy and memoryview, which ask for formats and strides.
int export_buffer(PyObject* self, Py_buffer* view, int flags) {
  MemoryObject& memory = object_of(self);
  view->obj = nullptr;
  const char* format = format_of(memory.type);
  const bool asks_for_less = (flags & PyBUF_STRIDES) != PyBUF_STRIDES || (flags & PyBUF_FORMAT) == 0;
  if (format == nullptr || asks_for_less || ((flags & PyBUF_WRITABLE) != 0 && memory.read_only)) {
    PyErr_SetString(PyExc_BufferError, "rotary: such a view of this memory is not given");
    return -1;
  }
  view->buf = memory.data;
  view->obj = Ref::borrowed(self).release();
  view->itemsize = static_cast<Py_ssize_t>(bits_of(memory.type) / 8);
  view->len = view->itemsize;
  for (int d = 0; d < memory.ndim; ++d) view->len *= memory.shape[d];
  view->readonly = memory.read_only ? 1 : 0;
  view->ndim = memory.ndim;
  view->format = const_cast<char*>(format);
  view->shape = memory.shape;
  view->strides = memory.strides;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  return 0;
}

// ---- DLPack ----

// What a capsule holds: the tensor, its dimensions, and the reference that keeps the memory.
struct Exported {
  dlpack::Managed managed{};
  std::int64_t shape[most_dimensions]{};
};

void drop(dlpack::Managed* tensor) {
  if (Py_IsInitialized() != 0) {
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(static_cast<PyObject*>(tensor->context));
    PyGILState_Release(state);
  }
  delete reinterpret_cast<Exported*>(tensor);
}

void drop_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;  // somebody took it
  drop(static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, "dltensor")));
}

dlpack::DataType data_type_of(ElementType type) {
  const auto bits = static_cast<std::uint8_t>(bits_of(type));
  if (type == ElementType::bf16) return {dlpack::code_bfloat, bits, 1};
  return {type == ElementType::i64 ? dlpack::code_int : dlpack::code_float, bits, 1};
}

// Called by this module's own code and by jax.dlpack.from_dlpack.
PyObject* to_dlpack(PyObject* self, PyObject*, PyObject*) {
  const MemoryObject& memory = object_of(self);
  auto* exported = new Exported;
  std::copy_n(memory.shape, memory.ndim, exported->shape);
  exported->managed = {
      {memory.data, {dlpack::cpu, 0}, memory.ndim, data_type_of(memory.type), exported->shape, nullptr, 0},
      Ref::borrowed(self).release(),
      drop};
  Ref capsule(PyCapsule_New(&exported->managed, "dltensor", drop_capsule));
  if (!capsule) drop(&exported->managed);
  return capsule.release();
}

PyObject* dlpack_device(PyObject*, PyObject*) { return Py_BuildValue("(ii)", dlpack::cpu, 0); }

// ---- the type ----

void free_object(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(object_of(self).owner);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyMethodDef methods[] = {{"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(to_dlpack)),
                          METH_VARARGS | METH_KEYWORDS, nullptr},
                         {"__dlpack_device__", dlpack_device, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyTypeObject* memory_type() {
  static PyObject* const type = [] {
    PyType_Slot slots[] = {{Py_tp_dealloc, slot(free_object)},
                           {Py_tp_methods, methods},
                           {Py_bf_getbuffer, slot(export_buffer)},
                           {0, nullptr}};
    constexpr unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE;
    PyType_Spec spec = {"rotary._core._Memory", sizeof(MemoryObject), 0, flags, slots};
    return checked(PyType_FromSpec(&spec)).release();
  }();
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

Ref new_memory_view(PyObject* owner, const void* data, ElementType type, std::span<const std::int64_t> shape,
                    bool read_only) {
  Ref made = checked(PyType_GenericAlloc(memory_type(), 0));
  MemoryObject& memory = object_of(made.get());
  memory.owner = Ref::borrowed(owner).release();
  memory.data = const_cast<void*>(data);
  memory.type = type;
  memory.read_only = read_only;
  memory.ndim = static_cast<int>(shape.size());
  Py_ssize_t run = bits_of(type) / 8;
  for (std::size_t d = shape.size(); d-- > 0;) {
    memory.shape[d] = static_cast<Py_ssize_t>(shape[d]);
    memory.strides[d] = run;
    run *= memory.shape[d];
  }
  return made;
}

Ref new_memory(ElementType type, std::span<const std::int64_t> shape) {
  std::size_t bytes = bits_of(type) / 8;
  for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
  void* data = ::operator new (std::max<std::size_t>(bytes, 1), std::align_val_t{64});
  Ref owner(PyCapsule_New(data, "rotary memory", free_memory));
  if (!owner) ::operator delete (data, std::align_val_t{64});
  if (!owner) throw Raised{};
  return new_memory_view(owner.get(), data, type, shape, false);
}

void* data_of_memory(PyObject* memory) { return object_of(memory).data; }

Ref array_of_memory(PyObject* memory) {
  if (format_of(object_of(memory).type) == nullptr) {
    fail(Code::DTYPE, "rotate",
         "a new array of bfloat16 must be one of numpy, torch or JAX but got another library's: "
         "rotate it in place, or pass out=");
  }
  static PyObject* const numpy_asarray = [] {
    const Ref numpy(PyImport_ImportModule("numpy"));
    if (!numpy) PyErr_Clear();
    return numpy ? PyObject_GetAttrString(numpy.get(), "asarray") : nullptr;
  }();
  if (numpy_asarray == nullptr) return checked(PyMemoryView_FromObject(memory));
  return checked(PyObject_CallFunctionObjArgs(numpy_asarray, memory, nullptr));
}

Ref new_array_view(PyObject* owner, const void* data, ElementType type, std::span<const std::int64_t> shape) {
  return array_of_memory(new_memory_view(owner, data, type, shape, true).get());
}

}  // namespace rotary::python
