// rotary.Array: numbers of this module that other code reads without a copy, by a buffer or DLPack.
#pragma once

#include <cstdint>
#include <span>

#include "python.h"
#include "rotary/tensors.h"

namespace rotary::python {

int add_array_type(PyObject* module);

// A view of memory that owner keeps, contiguous, which nobody can write through.
Ref new_array_view(PyObject* owner, const void* data, ElementType type, std::span<const std::int64_t> shape);
// The same without a mark that it must not be written to, for torch before 2.10, which takes no such capsules.
Ref new_shared_array(PyObject* owner, const void* data, ElementType type, std::span<const std::int64_t> shape);
// Memory of its own, not yet written. It can be written to.
Ref new_owned_array(ElementType type, int ndim, const std::int64_t* shape);
void* data_of_array(PyObject* array);

}  // namespace rotary::python
