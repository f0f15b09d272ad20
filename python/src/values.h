// Numbers, texts, Rope and its scalings, between Python's classes (rotary/_values.py) and C++'s.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "python.h"
#include "rotary/rope.h"

namespace rotary::python {

// ---- to Python ----

inline Ref object_of(double value) { return checked(PyFloat_FromDouble(value)); }
inline Ref object_of(bool value) { return Ref::borrowed(value ? Py_True : Py_False); }
inline Ref object_of(std::int64_t value) { return checked(PyLong_FromLongLong(value)); }
inline Ref object_of(int value) { return checked(PyLong_FromLong(value)); }
inline Ref object_of(const char* value) { return new_text(value); }
inline Ref object_of(const std::string& value) { return new_text(value); }
inline Ref object_of(const Ref& value) { return Ref::borrowed(value.get()); }
inline Ref object_of(const std::optional<double>& value) { return value ? object_of(*value) : none(); }
// A tuple.
template <class Value>
Ref object_of(const std::vector<Value>& values) {
  Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  Py_ssize_t at = 0;
  for (const Value& value : values) checked(PyTuple_SetItem(tuple.get(), at++, object_of(value).release()));
  return tuple;
}
template <class Value>
void put(const Ref& dict, const char* name, const Value& value) {
  checked(PyDict_SetItemString(dict.get(), name, object_of(value).get()));
}

// The keyword arguments of rotary.Rope; "scaling" is (name, its keyword arguments).
Ref words_of(const Rope& rope);
// {name: its keyword arguments} of every scaling, with the default values.
Ref scaling_words();

// ---- from Python; what: of the argument, in the TypeError ----

double double_of(PyObject* number, const char* what);
std::vector<double> doubles_of(PyObject* sequence, const char* what);  // a sequence or an array of one dimension
std::vector<int> ints_of(PyObject* sequence, const char* what);
std::vector<std::string> texts_of(PyObject* sequence, const char* what);

// Of a rotary.Rope. TypeError for a value of another type.
Rope rope_from(PyObject* object);

// Of keyword arguments; each is empty where the word is None.
struct Words {
  PyObject* dict;

  PyObject* find(const char* name) const;  // null: None, or not there
  std::optional<std::int64_t> integer(const char* name) const {
    PyObject* value = find(name);
    return value == nullptr ? std::nullopt : std::optional(integer_of(value, name));
  }
  std::optional<double> number(const char* name) const {
    PyObject* value = find(name);
    return value == nullptr ? std::nullopt : std::optional(double_of(value, name));
  }
  std::string text(const char* name) const {
    PyObject* value = find(name);
    return value == nullptr ? "" : text_of(value, name);
  }
  std::optional<Pairing> pairing(const char* name) const {
    PyObject* value = find(name);
    return value == nullptr ? std::nullopt : std::optional(parse_pairing(view_of(value, name)));
  }
  bool flag(const char* name) const {
    PyObject* value = find(name);
    return value != nullptr && is_true(value);
  }
};

}  // namespace rotary::python
