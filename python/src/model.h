// Configs of models.
#pragma once

#include <vector>

#include "python.h"
#include "rotary/config.h"

namespace rotary::python {

std::vector<PyMethodDef> model_methods();

// What `source` names: ("text", JSON) or ("path", a file, folder or repository of the Hugging Face cache), or ("rope",
// rotary.Rope, first).
Model model_of(PyObject* source, PyObject* pairing);

}  // namespace rotary::python
