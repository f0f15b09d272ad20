// The module rotary._core.

#include "module.h"
#include "rotary/self_test.h"
#include "rotary/targets.h"
#include "rotary/version.h"
#include "values.h"

namespace rotary::python {

namespace {

Ref get_targets() {
  const Ref pairs = checked(PyList_New(0));
  for (const Target& target : targets()) {
    PyObject* runs = target.runs ? Py_True : Py_False;
    checked(PyList_Append(pairs.get(), checked(Py_BuildValue("(NO)", new_text(target.name).release(), runs)).get()));
  }
  return checked(PyList_AsTuple(pairs.get()));
}

Ref get_chosen_target() { return new_text(chosen_target()); }

Ref set_target(PyObject* word) {
  use_target(view_of(word, "target"));
  return none();
}

Ref run_self_test() {
  unlocked(self_test);
  return none();
}

std::vector<PyMethodDef> methods() {
  std::vector<PyMethodDef> all = {
      method<get_targets>("targets",
                          "targets($module, /)\n--\n\n"
                          "The instruction sets of this build: (name, whether this machine runs it), the best last."),
      method<get_chosen_target>(
          "chosen_target",
          "chosen_target($module, /)\n--\n\nThe instruction set in use.\n\nRaises:\n    rotary.Error: TARGET."),
      method<set_target>("use_target",
                         "use_target($module, name, /)\n--\n\nUse an instruction set in the whole process; \"\": the "
                         "best.\n\nRaises:\n    rotary.Error: TARGET."),
      method<run_self_test>("self_test",
                            "self_test($module, /)\n--\n\nCompute with every instruction set and compare the bits with "
                            "those of every build.\n\nRaises:\n    rotary.Error: CHECK."),
      method<set_num_threads>("set_num_threads",
                              "set_num_threads($module, count, /)\n--\n\nHow many threads large calls use; 0: all "
                              "cores, the default. Raises rotary.Error, VALUE."),
      method<get_num_threads>("get_num_threads",
                              "get_num_threads($module, /)\n--\n\nHow many threads large calls use."),
      method<forget_threads>("_forget_threads"),
  };
  for (const auto& some : {rotate_methods, table_methods, value_methods, position_methods, tools_methods}) {
    for (const PyMethodDef& method : some()) all.push_back(method);
  }
  all.push_back({nullptr, nullptr, 0, nullptr});
  return all;
}

}  // namespace

}  // namespace rotary::python

PyMODINIT_FUNC PyInit__core() {
  using namespace rotary::python;
  static std::vector<PyMethodDef> methods_of_module = methods();
  static PyModuleDef definition{};
  definition.m_base = PyModuleDef_HEAD_INIT;
  definition.m_name = "rotary._core";
  definition.m_doc = "The C++ part of rotary.";
  definition.m_size = -1;
  definition.m_methods = methods_of_module.data();
  return guarded([] {
    Ref module = checked(PyModule_Create(&definition));
    add_error_type(module.get());
    add_rows_type(module.get());
    checked(PyModule_AddStringConstant(module.get(), "__version__", rotary::version()));
    return module;
  });
}
