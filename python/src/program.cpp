// python -m rotary: the one file of the module that needs the program's code (apps/).
#include "module.h"

#include <string>

#include "apps/rotary/command_line.h"
#include "values.h"

namespace rotary::python {

namespace {

PyObject* run_program(PyObject*, PyObject* words) {
  return guarded([&] {
    std::vector<std::string> texts = texts_of(words, "a word");
    std::vector<char*> letters;
    for (std::string& text : texts) letters.push_back(text.data());
    letters.push_back(nullptr);
    int status = 0;
    {
      const Unlocked unlocked(true);
      status = cli::run_command_line(static_cast<int>(texts.size()), letters.data());
    }
    return checked(PyLong_FromLong(status));
  });
}

}  // namespace

std::vector<PyMethodDef> program_methods() { return {{"_run", run_program, METH_O, nullptr}}; }

}  // namespace rotary::python
