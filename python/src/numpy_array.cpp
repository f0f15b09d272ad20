// numpy's arrays, by their array struct; and those of ndarray itself by the object, where that was seen to say the
// same.
#include <algorithm>

#include "arrays.h"

namespace rotary::python {

namespace {

// What __array_struct__ is a capsule of (PyArrayInterface of numpy's manual).
struct ArrayStruct {
  int two;
  int ndim;
  char kind;
  int item_size;
  int flags;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  void* data;
  PyObject* description;
};
constexpr int not_swapped = 0x200, writeable = 0x400;

// How an ndarray begins: what every extension of numpy 1 and 2 is compiled with.
struct ArrayObject {
  PyObject_HEAD void* data;
  int ndim;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  PyObject* base;
  PyObject* dtype;
  int flags;
};

Seen<ElementType> known_dtypes;  // numpy has one object for each of its own types, ml_dtypes too

// ml_dtypes' bfloat16 is a type of its own, which neither buffers nor DLPack carry.
bool is_bfloat16(PyObject* dtype) {
  const Ref word = checked(PyObject_GetAttrString(dtype, "name"));
  return view_of(word.get(), "dtype.name") == "bfloat16";
}

// Whether the object, read as an ArrayObject, is what its array struct says.
bool says_the_same(PyObject* object, const ArrayStruct& seen, const PyObject* dtype) {
  const auto& array = *reinterpret_cast<const ArrayObject*>(object);
  return array.data == seen.data && array.ndim == seen.ndim && array.dtype == dtype &&
         ((array.flags ^ seen.flags) & writeable) == 0 &&
         (seen.ndim == 0 || (std::equal(seen.shape, seen.shape + seen.ndim, array.shape) &&
                             std::equal(seen.strides, seen.strides + seen.ndim, array.strides)));
}

// The type numpy.ndarray once an array of two dimensions or more was seen to be an ArrayObject.
PyTypeObject* proved = nullptr;
bool disproved = false;

void prove(PyObject* object, const ArrayStruct& seen, const PyObject* dtype) {
  if (proved != nullptr || disproved || seen.ndim < 2) return;
  if (type_name(object) != "ndarray") return;
  if (says_the_same(object, seen, dtype)) {
    proved = reinterpret_cast<PyTypeObject*>(Ref::borrowed(reinterpret_cast<PyObject*>(Py_TYPE(object))).release());
  } else {
    disproved = true;
  }
}

}  // namespace

bool ArrayView::from_array_struct(PyObject* object) {
  static PyObject* const struct_word = PyUnicode_InternFromString("__array_struct__");
  static PyObject* const dtype_word = PyUnicode_InternFromString("dtype");
  Ref capsule = checked(PyObject_GetAttr(object, struct_word));
  const auto* seen = static_cast<const ArrayStruct*>(PyCapsule_GetPointer(capsule.get(), nullptr));
  if (seen == nullptr) throw Raised{};
  const Ref dtype = checked(PyObject_GetAttr(object, dtype_word));
  std::optional<ElementType> found = element_type_of(seen->kind, seen->item_size);
  if (seen->kind == 'V' && seen->item_size == 2 && is_bfloat16(dtype.get())) found = ElementType::bf16;
  if (!found || (seen->flags & not_swapped) == 0) refuse_type(name_, repr_of(dtype.get()));
  type = *found;
  data = seen->data;
  read_only = (seen->flags & writeable) == 0;
  set_dimensions(seen->ndim, seen->shape, seen->strides, 1);
  if (known_dtypes.find(dtype.get()) == nullptr) known_dtypes.keep(dtype.get(), type);
  prove(object, *seen, dtype.get());
  owner_ = std::move(capsule);
  return true;
}

bool ArrayView::from_numpy(PyObject* object) {
  if (Py_TYPE(object) != proved) return from_array_struct(object);
  const auto& array = *reinterpret_cast<const ArrayObject*>(object);
  const ElementType* known = known_dtypes.find(array.dtype);
  if (known == nullptr || array.ndim > most_dimensions) return from_array_struct(object);
  type = *known;
  data = array.data;
  read_only = (array.flags & writeable) == 0;
  ndim = array.ndim;
  std::copy_n(array.shape, ndim, shape.begin());
  std::copy_n(array.strides, ndim, strides.begin());
  return true;
}

}  // namespace rotary::python
