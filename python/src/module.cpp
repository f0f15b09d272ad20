// rotary._core: the module.
#include <vector>

#include "given.h"
#include "module.h"
#include "rotary/self_test.h"
#include "rotary/targets.h"
#include "rotary/version.h"
#include "values.h"

namespace rotary::python {

namespace {

PyObject* get_targets(PyObject*, PyObject*) {
  return guarded([] {
    Ref pairs = checked(PyList_New(0));
    for (const Target& target : targets()) {
      const auto size = static_cast<Py_ssize_t>(target.name.size());
      const Ref pair = checked(Py_BuildValue("(s#O)", target.name.data(), size, target.runs ? Py_True : Py_False));
      checked(PyList_Append(pairs.get(), pair.get()));
    }
    return checked(PyList_AsTuple(pairs.get()));
  });
}

PyObject* get_chosen_target(PyObject*, PyObject*) {
  return guarded([] { return new_text(chosen_target()); });
}

PyObject* set_target(PyObject*, PyObject* word) {
  return guarded([&] {
    use_target(view_of(word, "target"));
    return none();
  });
}

PyObject* run_self_test(PyObject*, PyObject*) {
  return guarded([] {
    {
      const Unlocked unlocked(true);
      self_test();
    }
    return none();
  });
}

std::vector<PyMethodDef> methods() {
  std::vector<PyMethodDef> all = {
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
      {"_forget_threads", forget_threads, METH_NOARGS, nullptr},
  };
  for (const auto& some : {rotate_methods, rows_methods, table_methods, value_methods, tools_methods, gpu_methods}) {
    for (const PyMethodDef& method : some()) all.push_back(method);
  }
  all.push_back({nullptr, nullptr, 0, nullptr});
  return all;
}

Ref make_module(PyModuleDef* definition) {
  Ref module = checked(PyModule_Create(definition));
  checked(add_error_type(module.get()));
  add_rows_type(module.get());
  checked(PyModule_AddStringConstant(module.get(), "__version__", version()));
  return module;
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
  return guarded([] { return make_module(&definition); });
}
