// rotary._core: the module.
#include <vector>

#include "arguments.h"
#include "given_table.h"
#include "module.h"
#include "rotary/self_test.h"
#include "rotary/targets.h"
#include "rotary/version.h"
#include "threads.h"
#include "types.h"
#include "values.h"

namespace rotary::python {

namespace {

PyObject* get_targets(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    Ref list = checked(PyList_New(0));
    for (const Target& target : targets()) {
      const Ref one = checked(Py_BuildValue("(NO)", new_text(target.name).release(), target.runs ? Py_True : Py_False));
      checked(PyList_Append(list.get(), one.get()));
    }
    return checked(PyList_AsTuple(list.get())).release();
  });
}

PyObject* get_chosen_target(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* { return new_text(chosen_target()).release(); });
}

PyObject* set_target(PyObject*, PyObject* word) {
  return guarded([&]() -> PyObject* {
    use_target(view_of(word, "target"));
    return Ref::borrowed(Py_None).release();
  });
}

PyObject* run_self_test(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* {
    {
      const Unlocked unlocked(true);
      self_test();
    }
    return Ref::borrowed(Py_None).release();
  });
}

PyObject* take_types(PyObject*, PyObject* rope) {
  set_rope_type(rope);
  return Ref::borrowed(Py_None).release();
}

// The rope's fields as Python's own numbers, where they make a rope.
PyObject* check_rope(PyObject*, PyObject* rope) {
  return guarded([&]() -> PyObject* {
    const Rope value = rope_from(rope);
    frequencies(value, 0);
    return words_of(value).release();
  });
}

PyObject* get_scalings(PyObject*, PyObject*) {
  return guarded([]() -> PyObject* { return scaling_words().release(); });
}

std::vector<PyMethodDef> methods() {
  std::vector<PyMethodDef> all = rotate_methods();
  const std::vector<PyMethodDef> others = {
      fast("frequencies", frequencies_function,
           "frequencies($module, /, rope, length=None)\n--\n\n"
           "The angular speed of every pair of a rope, in float64, within 1 ulp of the formula.\n\n"
           "Args:\n"
           "    rope: a rotary.Rope.\n"
           "    length: tokens in play, the largest position + 1. Needed with Dynamic and LongRope scaling only.\n\n"
           "Returns:\n    rotary.Frequencies.\n\n"
           "Raises:\n    rotary.Error: LENGTH (needed, not given), SCALING, SHAPE."),
      fast("from_rows", table_from_rows, nullptr),
      fast("from_doubled", table_from_doubled, nullptr),
      {"targets", get_targets, METH_NOARGS,
       "targets($module, /)\n--\n\nThe instruction sets of this build: (name, whether this machine runs it), the best "
       "last."},
      {"chosen_target", get_chosen_target, METH_NOARGS,
       "chosen_target($module, /)\n--\n\nThe instruction set in use.\n\nRaises:\n    rotary.Error: TARGET."},
      {"use_target", set_target, METH_O,
       "use_target($module, name, /)\n--\n\nUse an instruction set in the whole process; \"\": the best.\n\n"
       "Raises:\n    rotary.Error: TARGET."},
      {"self_test", run_self_test, METH_NOARGS,
       "self_test($module, /)\n--\n\nCompute with every instruction set and compare the bits with those of every "
       "build.\n\n"
       "Raises:\n    rotary.Error: CHECK."},
      {"set_num_threads", set_num_threads, METH_O,
       "set_num_threads($module, count, /)\n--\n\nHow many threads large calls use; 0: all cores, the default.\n\n"
       "Raises:\n    rotary.Error: VALUE."},
      {"get_num_threads", get_num_threads, METH_NOARGS,
       "get_num_threads($module, /)\n--\n\nHow many threads large calls use."},
      fast("_doubling", doubling_of, nullptr),
      {"_frequencies", frequencies_from_state, METH_VARARGS, nullptr},
      {"_table", table_from_state, METH_VARARGS, nullptr},
      {"_take_types", take_types, METH_O, nullptr},
      {"_check_rope", check_rope, METH_O, nullptr},
      {"_scalings", get_scalings, METH_NOARGS, nullptr},
  };
  all.insert(all.end(), others.begin(), others.end());
  for (const PyMethodDef& method : gpu_methods()) all.push_back(method);
  for (const PyMethodDef& method : model_methods()) all.push_back(method);
  for (const PyMethodDef& method : program_methods()) all.push_back(method);
  for (const PyMethodDef& method : checking_methods()) all.push_back(method);
  all.push_back({nullptr, nullptr, 0, nullptr});
  return all;
}

int fill(PyObject* module) {
  if (add_error_type(module) < 0 || add_frequencies_type(module) < 0 || add_table_type(module) < 0) {
    return -1;
  }
  watch_forks();
  return PyModule_AddStringConstant(module, "__version__", version());
}

}  // namespace

}  // namespace rotary::python

PyMODINIT_FUNC PyInit__core() {
  using namespace rotary::python;
  static std::vector<PyMethodDef> methods_of_module = methods();
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                   "rotary._core",
                                   "The C++ part of rotary.",
                                   -1,
                                   methods_of_module.data(),
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   nullptr};
  PyObject* module = PyModule_Create(&definition);
  if (module != nullptr && fill(module) < 0) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
