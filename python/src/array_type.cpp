#include "array_type.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "dlpack.h"

namespace rotary::python {

namespace {

constexpr int most = 8;

struct ArrayObject {
  PyObject_HEAD PyObject* owner;  // keeps the memory
  void* data;
  ElementType type;
  bool read_only;
  int ndim;
  Py_ssize_t shape[most];
  Py_ssize_t strides[most];  // in bytes
};

PyObject* array_type = nullptr;

ArrayObject& array_of(PyObject* self) { return *reinterpret_cast<ArrayObject*>(self); }

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

Ref new_array(PyObject* owner, void* data, ElementType type, std::span<const std::int64_t> shape, bool read_only) {
  Ref made = checked(PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(array_type), 0));
  ArrayObject& array = array_of(made.get());
  array.owner = Ref::borrowed(owner).release();
  array.data = data;
  array.type = type;
  array.read_only = read_only;
  array.ndim = static_cast<int>(shape.size());
  Py_ssize_t run = bits_of(type) / 8;
  for (std::size_t d = shape.size(); d-- > 0;) {
    array.shape[d] = static_cast<Py_ssize_t>(shape[d]);
    array.strides[d] = run;
    run *= array.shape[d];
  }
  return made;
}

Py_ssize_t bytes_of(const ArrayObject& array) {
  Py_ssize_t bytes = bits_of(array.type) / 8;
  for (int d = 0; d < array.ndim; ++d) bytes *= array.shape[d];
  return bytes;
}

void free_memory(PyObject* capsule) {
  ::operator delete (PyCapsule_GetPointer(capsule, "rotary memory"), std::align_val_t{64});
}

// ---- buffer ----

int export_buffer(PyObject* self, Py_buffer* view, int flags) {
  ArrayObject& array = array_of(self);
  view->obj = nullptr;
  const char* format = format_of(array.type);
  if (format == nullptr || ((flags & PyBUF_WRITABLE) != 0 && array.read_only)) {
    PyErr_SetString(PyExc_BufferError, format == nullptr ? "rotary.Array: buffers have no bfloat16: use DLPack"
                                                         : "rotary.Array: its numbers cannot be written to");
    return -1;
  }
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && array.ndim > 1) {
    PyErr_SetString(PyExc_BufferError, "rotary.Array: the last dimension is the contiguous one");
    return -1;
  }
  view->buf = array.data;
  view->obj = Ref::borrowed(self).release();
  view->len = bytes_of(array);
  view->itemsize = static_cast<Py_ssize_t>(bits_of(array.type) / 8);
  view->readonly = array.read_only ? 1 : 0;
  view->ndim = array.ndim;
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
  view->shape = (flags & PyBUF_ND) != 0 ? array.shape : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? array.strides : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  return 0;
}

// ---- DLPack ----

// What a capsule holds: the tensor, its dimensions, and the reference that keeps the memory.
template <class Tensor>
struct Exported {
  Tensor managed{};
  std::int64_t shape[most]{};
  std::int64_t strides[most]{};
};

template <class Tensor>
void drop(Tensor* tensor) {
  if (Py_IsInitialized() != 0) {
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(static_cast<PyObject*>(tensor->context));
    PyGILState_Release(state);
  }
  delete reinterpret_cast<Exported<Tensor>*>(tensor);
}

template <class Tensor>
constexpr const char* capsule_name = "dltensor";
template <>
constexpr const char* capsule_name<dlpack::ManagedVersioned> = "dltensor_versioned";

template <class Tensor>
void drop_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, capsule_name<Tensor>) == 0) return;  // somebody took it
  auto* tensor = static_cast<Tensor*>(PyCapsule_GetPointer(capsule, capsule_name<Tensor>));
  tensor->deleter(tensor);
}

dlpack::DataType data_type_of(ElementType type) {
  const auto bits = static_cast<std::uint8_t>(bits_of(type));
  if (type == ElementType::bf16) return {dlpack::code_bfloat, bits, 1};
  return {type == ElementType::i64 ? dlpack::code_int : dlpack::code_float, bits, 1};
}

template <class Tensor>
Ref export_as(PyObject* self) {
  const ArrayObject& array = array_of(self);
  auto* exported = new Exported<Tensor>;
  Tensor& managed = exported->managed;
  const auto item = static_cast<std::int64_t>(bits_of(array.type) / 8);
  std::copy_n(array.shape, array.ndim, exported->shape);
  std::transform(array.strides, array.strides + array.ndim, exported->strides,
                 [item](auto bytes) { return bytes / item; });
  managed.tensor = {array.data,      {dlpack::cpu, 0},  array.ndim, data_type_of(array.type),
                    exported->shape, exported->strides, 0};
  if constexpr (requires { managed.flags; }) {
    managed.version = {1, 0};
    managed.flags = array.read_only ? dlpack::read_only : 0;
  }
  managed.context = Ref::borrowed(self).release();
  managed.deleter = drop<Tensor>;
  Ref capsule(PyCapsule_New(&managed, capsule_name<Tensor>, drop_capsule<Tensor>));
  if (!capsule) managed.deleter(&managed);
  return checked(capsule.release());
}

Ref copy_of(PyObject* self) {
  const ArrayObject& array = array_of(self);
  std::int64_t shape[most];
  std::copy_n(array.shape, array.ndim, shape);
  Ref made = new_owned_array(array.type, array.ndim, shape);
  if (const Py_ssize_t bytes = bytes_of(array); bytes > 0) {
    std::memcpy(data_of_array(made.get()), array.data, static_cast<std::size_t>(bytes));
  }
  return made;
}

PyObject* to_dlpack(PyObject* self, PyObject* arguments, PyObject* words) {
  return guarded([&]() -> PyObject* {
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    const char* const names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
    checked(PyArg_ParseTupleAndKeywords(arguments, words, "|$OOOO:__dlpack__", const_cast<char**>(names), &stream,
                                        &version, &device, &copy) == 0
                ? -1
                : 0);
    if (stream != Py_None) fail(Code::VALUE, "__dlpack__", "a stream must be None but got " + repr_of(stream));
    bool versioned = false;
    if (version != Py_None) {
      const Ref major = checked(PySequence_GetItem(version, 0));
      versioned = integer_of(major.get(), "max_version") >= 1;
    }
    // What must not be written to is a copy: what has no version cannot say so, and torch does not look.
    const bool copies = copy == Py_True || (array_of(self).read_only && copy != Py_False);
    if (array_of(self).read_only && !copies && !versioned) {
      PyErr_SetString(PyExc_BufferError, "rotary.Array: without max_version=(1, 0) it is exported as a copy");
      throw Raised{};
    }
    const Ref source = copies ? copy_of(self) : Ref::borrowed(self);
    return (versioned ? export_as<dlpack::ManagedVersioned>(source.get()) : export_as<dlpack::Managed>(source.get()))
        .release();
  });
}

PyObject* dlpack_device(PyObject*, PyObject*) { return Py_BuildValue("(ii)", 1, 0); }

// ---- what a sequence has ----

Py_ssize_t length_of(PyObject* self) {
  const ArrayObject& array = array_of(self);
  if (array.ndim > 0) return array.shape[0];
  PyErr_SetString(PyExc_TypeError, "rotary.Array: one number has no len()");
  return -1;
}

PyObject* item_at(PyObject* self, Py_ssize_t index) {
  return guarded([&]() -> PyObject* {
    const ArrayObject& array = array_of(self);
    if (array.ndim == 0 || index < 0 || index >= array.shape[0]) {
      PyErr_SetString(PyExc_IndexError, "rotary.Array: index out of range");
      throw Raised{};
    }
    if (array.ndim == 1) {
      const Ref view = checked(PyMemoryView_FromObject(self));
      return checked(PySequence_GetItem(view.get(), index)).release();
    }
    const std::vector<std::int64_t> shape(array.shape + 1, array.shape + array.ndim);
    void* row = static_cast<std::byte*>(array.data) + index * array.strides[0];
    return new_array(self, row, array.type, shape, array.read_only).release();
  });
}

PyObject* subscript(PyObject* self, PyObject* key) {
  return guarded([&]() -> PyObject* {
    if (PyLong_Check(key) == 0 || array_of(self).ndim < 2) {
      const Ref view = checked(PyMemoryView_FromObject(self));
      return checked(PyObject_GetItem(view.get(), key)).release();
    }
    const std::int64_t index = integer_of(key, "index");
    return item_at(self, static_cast<Py_ssize_t>(index < 0 ? index + array_of(self).shape[0] : index));
  });
}

PyObject* to_list(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Ref view = checked(PyMemoryView_FromObject(self));
    return checked(PyObject_CallMethod(view.get(), "tolist", nullptr)).release();
  });
}

PyObject* represent(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Ref shape = checked(PyObject_GetAttrString(self, "shape"));
    const Ref dtype = checked(PyObject_GetAttrString(self, "dtype"));
    return checked(PyUnicode_FromFormat("<rotary.Array %S of shape %S>", dtype.get(), shape.get())).release();
  });
}

PyObject* get_shape(PyObject* self, void*) {
  const ArrayObject& array = array_of(self);
  Ref shape(PyTuple_New(array.ndim));
  for (int d = 0; shape && d < array.ndim; ++d) {
    if (PyTuple_SetItem(shape.get(), d, PyLong_FromSsize_t(array.shape[d])) < 0) return nullptr;
  }
  return shape.release();
}

PyObject* get_dtype(PyObject* self, void*) {
  const ElementType type = array_of(self).type;
  return PyUnicode_FromString(type == ElementType::f64   ? "float64"
                              : type == ElementType::f32 ? "float32"
                              : type == ElementType::f16 ? "float16"
                              : type == ElementType::i64 ? "int64"
                                                         : "bfloat16");
}

PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(array_of(self).ndim); }

void free_array(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(array_of(self).owner);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

constexpr const char* array_doc =
    "Numbers of rotary, row-major.\n\n"
    "numpy.asarray(a) and memoryview(a) see the same memory, which lives as long as any of them. By DLPack\n"
    "(torch.from_dlpack, jax.numpy.from_dlpack) the numbers of tables and frequencies are copied, since not every\n"
    "library respects that they must not be written to; with copy=False they are not.";

PyMethodDef array_methods[] = {
    {"tolist", to_list, METH_NOARGS, "tolist($self, /)\n--\n\nThe numbers as nested lists."},
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(to_dlpack)), METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA DLPack capsule."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "__dlpack_device__($self, /)\n--\n\n(1, 0): the CPU."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef array_attributes[] = {{"shape", get_shape, nullptr, "the dimensions, a tuple", nullptr},
                                  {"ndim", get_ndim, nullptr, "how many dimensions", nullptr},
                                  {"dtype", get_dtype, nullptr, "the element type's name, as numpy's", nullptr},
                                  {nullptr, nullptr, nullptr, nullptr, nullptr}};

}  // namespace

Ref new_array_view(PyObject* owner, const void* data, ElementType type, std::span<const std::int64_t> shape) {
  return new_array(owner, const_cast<void*>(data), type, shape, true);
}

Ref new_shared_array(PyObject* owner, const void* data, ElementType type, std::span<const std::int64_t> shape) {
  return new_array(owner, const_cast<void*>(data), type, shape, false);
}

Ref new_owned_array(ElementType type, int ndim, const std::int64_t* shape) {
  std::size_t bytes = bits_of(type) / 8;
  for (int d = 0; d < ndim; ++d) bytes *= static_cast<std::size_t>(shape[d]);
  void* memory = ::operator new (std::max<std::size_t>(bytes, 1), std::align_val_t{64});
  Ref owner(PyCapsule_New(memory, "rotary memory", free_memory));
  if (!owner) ::operator delete (memory, std::align_val_t{64});
  if (!owner) throw Raised{};
  return new_array(owner.get(), memory, type, {shape, static_cast<std::size_t>(ndim)}, false);
}

void* data_of_array(PyObject* array) { return array_of(array).data; }

int add_array_type(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(array_doc)},
                         {Py_tp_dealloc, slot(free_array)},
                         {Py_tp_repr, slot(represent)},
                         {Py_tp_methods, array_methods},
                         {Py_tp_getset, array_attributes},
                         {Py_sq_length, slot(length_of)},
                         {Py_sq_item, slot(item_at)},
                         {Py_mp_length, slot(length_of)},
                         {Py_mp_subscript, slot(subscript)},
                         {Py_bf_getbuffer, slot(export_buffer)},
                         {0, nullptr}};
  constexpr unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE;
  PyType_Spec spec = {"rotary.Array", sizeof(ArrayObject), 0, flags, slots};
  if (array_type == nullptr) array_type = PyType_FromSpec(&spec);
  return array_type == nullptr ? -1 : PyModule_AddObjectRef(module, "Array", array_type);
}

}  // namespace rotary::python
