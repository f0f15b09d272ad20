// rotate and its family.
#pragma once

#include <vector>

#include "python.h"

namespace rotary::python {

std::vector<PyMethodDef> rotate_methods();

}  // namespace rotary::python
