#include "values.h"

#include <limits>
#include <string>
#include <type_traits>

#include "arrays.h"
#include "values/scaling_fields.h"

namespace rotary::python {

namespace {

PyObject* rope_type = nullptr;

Ref attribute(PyObject* object, const char* name) { return checked(PyObject_GetAttrString(object, name)); }

int small_of(PyObject* number, const char* what) {
  const std::int64_t value = integer_of(number, what);
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
    fail(Code::SHAPE, "Rope", std::string(what) + " must fit 32 bits but got " + std::to_string(value));
  }
  return static_cast<int>(value);
}

bool flag_of(PyObject* value, const char* what) {
  if (PyBool_Check(value) == 0) raise_type_error(std::string(what) + " must be a bool but got " + type_name(value));
  return value == Py_True;
}

void read_into(double& value, PyObject* object, const char* what) { value = double_of(object, what); }
void read_into(bool& value, PyObject* object, const char* what) { value = flag_of(object, what); }
void read_into(std::int64_t& value, PyObject* object, const char* what) { value = integer_of(object, what); }
void read_into(std::vector<double>& value, PyObject* object, const char* what) { value = doubles_of(object, what); }
void read_into(std::optional<double>& value, PyObject* object, const char* what) {
  if (object != Py_None) value = double_of(object, what);
}

Ref object_of(double value) { return checked(PyFloat_FromDouble(value)); }
Ref object_of(bool value) { return Ref::borrowed(value ? Py_True : Py_False); }
Ref object_of(std::int64_t value) { return checked(PyLong_FromLongLong(value)); }
Ref object_of(int value) { return checked(PyLong_FromLong(value)); }
Ref object_of(const std::vector<double>& value) { return tuple_of(value); }
Ref object_of(const std::vector<int>& value) { return tuple_of(value); }
Ref object_of(const std::vector<std::uint8_t>& value) { return tuple_of(value); }
Ref object_of(const char* value) { return new_text(value); }
Ref object_of(const std::optional<double>& value) { return value ? object_of(*value) : Ref::borrowed(Py_None); }

template <class Value>
void put(const Ref& words, const char* name, const Value& value) {
  checked(PyDict_SetItemString(words.get(), name, object_of(value).get()));
}

Scaling scaling_from(PyObject* object) {
  const Ref word(PyObject_GetAttrString(object, "_name"));
  if (!word) {
    PyErr_Clear();
    raise_type_error("scaling must be a rotary.Unscaled, Linear, Ntk, NtkFixed, Dynamic, Yarn, LongRope, Llama3 or " +
                     std::string("Proportional but got ") + type_name(object));
  }
  Scaling scaling = parse_scaling(view_of(word.get(), "scaling"));
  std::visit(
      [&](auto& held) {
        scalings::for_each_field(held, [&](const auto& field, auto& value) {
          const Ref given = attribute(object, field.name);
          read_into(value, given.get(), field.name);
        });
      },
      scaling);
  return scaling;
}

Ref words_of_scaling(const Scaling& scaling) {
  Ref words = checked(PyDict_New());
  scalings::for_each_field(scaling, [&](const auto& field, const auto& value) { put(words, field.name, value); });
  return words;
}

template <class Value>
Ref tuple_from(const std::vector<Value>& values) {
  Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Ref item;
    if constexpr (std::is_same_v<Value, double>) {
      item = object_of(values[i]);
    } else {
      item = object_of(static_cast<int>(values[i]));
    }
    checked(PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), item.release()));
  }
  return tuple;
}

template <class Visit>
void for_each_item(PyObject* sequence, const char* what, const Visit& visit) {
  if (PySequence_Check(sequence) == 0 || PyUnicode_Check(sequence) != 0) {
    raise_type_error(std::string(what) + " must be a sequence of numbers but got " + type_name(sequence));
  }
  const Py_ssize_t size = PySequence_Size(sequence);
  if (size < 0) throw Raised{};
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Ref item = checked(PySequence_GetItem(sequence, i));
    visit(item.get());
  }
}

}  // namespace

double double_of(PyObject* number, const char* what) {
  const double value = PyFloat_AsDouble(number);
  if (value == -1 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw Raised{};
    PyErr_Clear();
    raise_type_error(std::string(what) + " must be a number but got " + type_name(number));
  }
  return value;
}

std::vector<double> doubles_of(PyObject* sequence, const char* what) {
  std::vector<double> values;
  if (PyList_Check(sequence) != 0 || PyTuple_Check(sequence) != 0) {
    for_each_item(sequence, what, [&](PyObject* item) { values.push_back(double_of(item, what)); });
    return values;
  }
  const ArrayView view(sequence, what);
  if (view.ndim != 1) fail(Code::SHAPE, what, "it must have one dimension but got " + view.shape_text());
  for_each_offset(view, [&](const void* place) { values.push_back(real_at(place, view.type)); });
  return values;
}

std::vector<int> ints_of(PyObject* sequence, const char* what) {
  std::vector<int> values;
  for_each_item(sequence, what, [&](PyObject* item) { values.push_back(small_of(item, what)); });
  return values;
}

std::vector<std::uint8_t> axes_of(PyObject* sequence, const char* what) {
  std::vector<std::uint8_t> values;
  for_each_item(sequence, what, [&](PyObject* item) {
    const std::int64_t axis = integer_of(item, what);
    if (axis < 0 || axis > 255)
      fail(Code::SHAPE, what, "an axis must be from 0 to 255 but got " + std::to_string(axis));
    values.push_back(static_cast<std::uint8_t>(axis));
  });
  return values;
}

Ref tuple_of(const std::vector<double>& values) { return tuple_from(values); }
Ref tuple_of(const std::vector<int>& values) { return tuple_from(values); }
Ref tuple_of(const std::vector<std::uint8_t>& values) { return tuple_from(values); }

void set_rope_type(PyObject* type) { rope_type = Ref::borrowed(type).release(); }

bool is_rope(PyObject* object) { return rope_type != nullptr && PyObject_IsInstance(object, rope_type) == 1; }

Rope rope_from(PyObject* object) {
  Rope rope;
  rope.head_dim = small_of(attribute(object, "head_dim").get(), "head_dim");
  rope.rotary_dim = small_of(attribute(object, "rotary_dim").get(), "rotary_dim");
  rope.base = double_of(attribute(object, "base").get(), "base");
  const Ref pairing = attribute(object, "pairing");
  if (pairing.get() != Py_None) rope.pairing = parse_pairing(view_of(pairing.get(), "pairing"));
  rope.scaling = scaling_from(attribute(object, "scaling").get());
  rope.axis = axes_of(attribute(object, "axis").get(), "axis");
  rope.index = ints_of(attribute(object, "index").get(), "index");
  rope.exponent_dim = small_of(attribute(object, "exponent_dim").get(), "exponent_dim");
  rope.clockwise = flag_of(attribute(object, "clockwise").get(), "clockwise");
  rope.inv_freq = doubles_of(attribute(object, "inv_freq").get(), "inv_freq");
  rope.multiplier = doubles_of(attribute(object, "multiplier").get(), "multiplier");
  return rope;
}

Ref words_of(const Rope& rope) {
  Ref words = checked(PyDict_New());
  put(words, "head_dim", rope.head_dim);
  put(words, "rotary_dim", rope.rotary_dim);
  put(words, "base", rope.base);
  put(words, "pairing", name(rope.pairing));
  const Ref scaling = checked(Py_BuildValue("(sN)", name(rope.scaling), words_of_scaling(rope.scaling).release()));
  checked(PyDict_SetItemString(words.get(), "scaling", scaling.get()));
  put(words, "axis", rope.axis);
  put(words, "index", rope.index);
  put(words, "exponent_dim", rope.exponent_dim);
  put(words, "clockwise", rope.clockwise);
  put(words, "inv_freq", rope.inv_freq);
  put(words, "multiplier", rope.multiplier);
  return words;
}

Ref scaling_words() {
  Ref all = checked(PyDict_New());
  scalings::for_each_scaling([&](const auto& scaling) {
    checked(PyDict_SetItemString(all.get(), name(Scaling(scaling)), words_of_scaling(scaling).get()));
  });
  return all;
}

}  // namespace rotary::python
