// Numbers, texts, positions, Rope and Frequencies: from Python's objects, and as JSON to Python.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "python.h"
#include "rotary/positions.h"
#include "rotary/rope.h"
#include "text/json.h"

namespace rotary::python {

// ---- to Python ----

// A tuple of the values.
Ref tuple_of(std::span<const std::int64_t> values);
template <class Value>
Ref bytes_of(const std::vector<Value>& values) {
  return checked(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(values.data()),
                                           static_cast<Py_ssize_t>(values.size() * sizeof(Value))));
}
// The keyword arguments of rotary.Rope; "scaling" has its fields and its name.
files::Json json_of(const Rope& rope);
inline Ref text_of(const files::Json& told) { return new_text(told.dump()); }

// ---- from Python; what: of the argument, in the TypeError ----

double double_of(PyObject* number, const char* what);
template <class Value>  // int or std::string
std::vector<Value> list_of(PyObject* sequence, const char* what);

// The C++ value in the _handle of a rotary.Rope, valid during its lifetime; and of a rotary.Frequencies, null for other
// objects.
const Rope& rope_of(PyObject* rope);
const Frequencies* frequencies_or_null(PyObject* object);

// The values of keyword arguments; each is empty if the argument is None.
struct Words {
  PyObject* dict;

  PyObject* find(const char* name) const;  // null if it is None or missing
  PyObject* needed(const char* name) const { return find(name) == nullptr ? Py_None : find(name); }
  std::optional<std::int64_t> integer(const char* name) const { return read<std::int64_t>(name, integer_of); }
  std::optional<int> small(const char* name) const { return read<int>(name, int_of); }
  std::optional<double> number(const char* name) const { return read<double>(name, double_of); }
  std::string text(const char* name) const { return read<std::string>(name, text_of).value_or(""); }
  std::optional<Pairing> pairing(const char* name) const {
    const std::string word = text(name);
    return find(name) == nullptr ? std::nullopt : std::optional(parse_pairing(word));
  }
  bool flag(const char* name) const { return find(name) != nullptr && is_true(find(name)); }

 private:
  template <class Value>
  std::optional<Value> read(const char* name, Value (*from)(PyObject*, const char*)) const {
    PyObject* value = find(name);
    return value == nullptr ? std::nullopt : std::optional(from(value, name));
  }
};

// object: a result of rotary._memory.positions(): any array of integers or floats, or (values, shape) of Python's
// numbers, where values is an array or, for a range or an int, (first, step). given_shape is then [], [tokens],
// [batch, tokens], [axes, tokens] or [axes, batch, tokens]. axes: of the rope; if it is 1, two dimensions are
// [batch, tokens], else [axes, tokens]. bools: an array may have them, as 0 and 1. Throws SHAPE, DTYPE, POSITION.
PositionSet positions_from(PyObject* object, int axes, bool bools = false);
// _positions, _model_positions.
std::vector<PyMethodDef> position_methods();

// _rope, _speeds, _frequencies, _check_rope, _scalings, _rope_parameters, _make.
std::vector<PyMethodDef> value_methods();

}  // namespace rotary::python
