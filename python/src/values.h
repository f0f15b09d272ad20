// Rope and its scalings, between Python's classes (rotary/_values.py) and C++'s.
#pragma once

#include <vector>

#include "python.h"
#include "rotary/rope.h"

namespace rotary::python {

void set_rope_type(PyObject* type);  // rotary.Rope
bool is_rope(PyObject* object);
// Of a rotary.Rope. TypeError for a value of another type.
Rope rope_from(PyObject* object);
// The keyword arguments of rotary.Rope; "scaling" is (name, its keyword arguments).
Ref words_of(const Rope& rope);
// {name: its keyword arguments} of every scaling, with the default values.
Ref scaling_words();

Ref tuple_of(const std::vector<double>& values);
Ref tuple_of(const std::vector<int>& values);
Ref tuple_of(const std::vector<std::uint8_t>& values);
std::vector<double> doubles_of(PyObject* sequence, const char* what);  // a sequence or an array of one dimension
std::vector<int> ints_of(PyObject* sequence, const char* what);
std::vector<std::uint8_t> axes_of(PyObject* sequence, const char* what);
double double_of(PyObject* number, const char* what);

}  // namespace rotary::python
