// rotary.Frequencies and rotary.Table.
#pragma once

#include "python.h"
#include "rotary/rotary.h"

namespace rotary::python {

int add_frequencies_type(PyObject* module);
const Frequencies* frequencies_in(PyObject* object);  // null: it is no rotary.Frequencies
Ref new_frequencies(Frequencies frequencies);

PyObject* frequencies_function(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words);
PyObject* frequencies_from_state(PyObject*, PyObject* state);  // for pickle

// Of a value whose state() says all: == and hash.
PyObject* compare_states(PyObject* self, PyObject* other, int operation, Ref (*state)(PyObject*));
Py_hash_t hash_state(PyObject* self, Ref (*state)(PyObject*));

int add_table_type(PyObject* module);
const Table* table_or_null(PyObject* object);                             // null: it is no rotary.Table
[[noreturn]] void refuse_table(PyObject* object, const char* operation);  // TypeError, with what to do

PyObject* table_from_rows(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words);
PyObject* table_from_doubled(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words);
PyObject* table_from_state(PyObject*, PyObject* state);  // for pickle

// For rows.cpp.
Ref new_table(Table table, bool batched, Ref positions);

}  // namespace rotary::python
