// rotary.Table, and tables of rows that somebody else made.
#pragma once

#include "python.h"
#include "rotary/table.h"

namespace rotary::python {

int add_table_type(PyObject* module);
const Table* table_or_null(PyObject* object);                             // null: it is no rotary.Table
[[noreturn]] void refuse_table(PyObject* object, const char* operation);  // TypeError, with what to do

PyObject* table_from_rows(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words);
PyObject* table_from_doubled(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words);
PyObject* table_from_state(PyObject*, PyObject* state);  // for pickle

// For rows.cpp.
Ref new_table(Table table, bool batched, Ref positions);

}  // namespace rotary::python
