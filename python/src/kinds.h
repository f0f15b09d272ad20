// Whose array an object is, and new arrays of that kind. What is found out of a type is kept.
#pragma once

#include "arrays.h"

namespace rotary::python {

Kind kind_of(PyObject* object);
const void* exchange_of(PyObject* object);  // dlpack::ExchangeApi of its type; null: none that this file reads
Ref module_function(const char* module_name, const char* name);
bool gradients_are_recorded();  // torch.is_grad_enabled()

// A new array of the same kind, element type and shape, not yet written. Of JAX, and of what only has a buffer, an
// Array of this module; finished() makes of it what the caller is given.
Ref empty_like(PyObject* object, const ArrayView& view);
Ref finished(Ref made, Kind kind);

}  // namespace rotary::python
