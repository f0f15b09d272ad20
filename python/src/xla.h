// The functions that XLA calls for rotary.jax.
#pragma once

#include "python.h"

namespace rotary::python {

// {name of the target: capsule of its handler}, as jax.ffi.register_ffi_target takes them.
PyObject* xla_targets(PyObject*, PyObject*);

}  // namespace rotary::python
