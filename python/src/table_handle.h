// What rotary.Frequencies and rotary.Table (rotary/_tables.py) hold of the library: a capsule, and a base class.
#pragma once

#include <vector>

#include "python.h"
#include "rotary/table.h"

namespace rotary::python {

// rotary._core._Rows(cos, sin, shape, pairing), of bytes. Its attributes _torch_cos, _torch_sin and _torch_copies are
// what rotary._torch.tables.tensors_of makes of it when one is first asked for: torch.compile follows an attribute of C
// that is a tensor.
void add_rows_type(PyObject* module);
const Table* table_or_null(PyObject* object);  // null: it is no such table

// _frequencies(rope, length), _speeds(*state), _rows_at(type, source, positions, length, angles, rounding),
// _doubles(values, name): _core.pyi.
std::vector<PyMethodDef> table_methods();

}  // namespace rotary::python
