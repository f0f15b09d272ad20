// The functions of the buffer protocol, which the limited API of 3.10 does not name, in the interpreter that runs.
#include "interpreter.h"
#include "python.h"

namespace rotary::python {

int get_buffer(PyObject* object, Py_buffer* view, int flags) {
  using Get = int (*)(PyObject*, Py_buffer*, int);
  static auto* const function = reinterpret_cast<Get>(function_of_interpreter("PyObject_GetBuffer"));
  if (function != nullptr) return function(object, view, flags);
  PyErr_SetString(PyExc_BufferError, "rotary: this interpreter shows no buffers");
  return -1;
}

void release_buffer(Py_buffer* view) {
  using Release = void (*)(Py_buffer*);
  static auto* const function = reinterpret_cast<Release>(function_of_interpreter("PyBuffer_Release"));
  if (function != nullptr) function(view);
}

}  // namespace rotary::python
