// Memory of this module that Python code sees without a copy: as a read-only or writable array of numpy, or a
// memoryview where numpy is not installed, and by DLPack.
#pragma once

#include <cstdint>
#include <span>

#include "python.h"
#include "rotary/tensors.h"

namespace rotary::python {

// An object that shows memory that owner keeps, contiguous, by a buffer and DLPack. By a buffer it cannot be written
// to where read_only; DLPack without versions cannot say so.
Ref new_memory_view(PyObject* owner, const void* data, ElementType type, std::span<const std::int64_t> shape,
                    bool read_only);
// The same of memory of its own, not yet written. It can be written to.
Ref new_memory(ElementType type, std::span<const std::int64_t> shape);
void* data_of_memory(PyObject* memory);

// What a caller is given of such an object. numpy and memoryview have no bf16: throws DTYPE.
Ref array_of_memory(PyObject* memory);
// new_memory_view, read-only, as an array.
Ref new_array_view(PyObject* owner, const void* data, ElementType type, std::span<const std::int64_t> shape);

}  // namespace rotary::python
