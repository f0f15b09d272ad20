// The functions of the buffer protocol, which the limited API of 3.10 does not name, in the interpreter that runs.
#include <dlfcn.h>

#include "python.h"

namespace rotary::python {

namespace {

void* find(const char* name) { return dlsym(RTLD_DEFAULT, name); }

}  // namespace

int get_buffer(PyObject* object, Py_buffer* view, int flags) {
  static auto* const function = reinterpret_cast<int (*)(PyObject*, Py_buffer*, int)>(find("PyObject_GetBuffer"));
  if (function != nullptr) return function(object, view, flags);
  PyErr_SetString(PyExc_BufferError, "rotary: this interpreter shows no buffers");
  return -1;
}

void release_buffer(Py_buffer* view) {
  static auto* const function = reinterpret_cast<void (*)(Py_buffer*)>(find("PyBuffer_Release"));
  if (function != nullptr) function(view);
}

}  // namespace rotary::python
