// The command line in this process; and what check and diagnose find out about files or arrays.
#pragma once

#include <vector>

#include "python.h"

namespace rotary::python {

std::vector<PyMethodDef> program_methods();   // _run: program.cpp
std::vector<PyMethodDef> checking_methods();  // _ask: checking.cpp

}  // namespace rotary::python
