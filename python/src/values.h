// Values between Python and C++: numbers, texts, positions, Rope, Frequencies, and JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "python.h"
#include "rotary/positions.h"
#include "rotary/rope.h"

namespace rotary::python {

using Json = nlohmann::json;

// ---- to Python ----

Ref tuple_of(std::span<const std::int64_t> values);
template <class Value>
Ref bytes_of(const std::vector<Value>& values) {
  return checked(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(values.data()),
                                           static_cast<Py_ssize_t>(values.size() * sizeof(Value))));
}
// The keyword arguments of rotary.Rope. "scaling" has the fields of the scaling and its name.
Json to_json(const Rope& rope);
inline Ref new_json(const Json& value) { return new_text(value.dump()); }

// ---- from Python. what: the argument's name for the TypeError ----

double double_of(PyObject* number, const char* what);
template <class Value>  // int or std::string
std::vector<Value> list_of(PyObject* sequence, const char* what);

// The C++ values that a rotary.Rope and a rotary.Frequencies hold, valid as long as these. Null for other objects.
const Rope& rope_of(PyObject* rope);
const Frequencies* frequencies_or_null(PyObject* object);

// Keyword arguments. A value is empty if the argument is None or missing.
struct Words {
  PyObject* dict;

  PyObject* find(const char* name) const;  // null if it is None or missing
  PyObject* needed(const char* name) const { return find(name) == nullptr ? Py_None : find(name); }
  std::optional<std::int64_t> integer(const char* name) const { return read<std::int64_t>(name, integer_of); }
  std::optional<int> small(const char* name) const { return read<int>(name, int_of); }
  std::optional<double> number(const char* name) const { return read<double>(name, double_of); }
  std::string text(const char* name) const { return read<std::string>(name, string_of).value_or(""); }
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

// The positions that a result of rotary._memory.positions() holds. It is any array of integers or floats, or
// (values, shape), where values are an array or, for a range or an int, (first, step). given_shape is then [],
// [tokens], [batch, tokens], [axes, tokens] or [axes, batch, tokens]. axes: the number of the rope's axes; if it is 1,
// two dimensions are [batch, tokens], else [axes, tokens]. bools: an array may hold them, as 0 and 1. Throws SHAPE,
// DTYPE, POSITION.
PositionSet positions_from(PyObject* object, int axes, bool bools = false);
std::vector<PyMethodDef> position_methods();
std::vector<PyMethodDef> value_methods();

}  // namespace rotary::python
