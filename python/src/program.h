// The command line in this process, and what its check and diagnose find out about arrays.
#pragma once

#include <vector>

#include "python.h"

namespace rotary::python {

std::vector<PyMethodDef> program_methods();

}  // namespace rotary::python
