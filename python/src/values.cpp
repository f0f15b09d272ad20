#include "values.h"

#include <limits>

#include "arrays.h"
#include "values/scaling_fields.h"

namespace rotary::python {

namespace {

std::int64_t integer_within(PyObject* number, const char* what, std::int64_t least, std::int64_t most) {
  const std::int64_t value = integer_of(number, what);
  if (value < least || value > most) {
    fail(Code::SHAPE, "Rope",
         std::string(what) + " must be from " + std::to_string(least) + " to " + std::to_string(most) + " but got " +
             std::to_string(value));
  }
  return value;
}

// visit(item) for each of a sequence.
template <class Visit>
void for_each_item(PyObject* sequence, const char* what, const Visit& visit) {
  if (PySequence_Check(sequence) == 0 || PyUnicode_Check(sequence) != 0) {
    raise_type_error(std::string(what) + " must be a sequence but got " + type_name(sequence));
  }
  const Py_ssize_t size = PySequence_Size(sequence);
  if (size < 0) throw Raised{};
  for (Py_ssize_t i = 0; i < size; ++i) visit(checked(PySequence_GetItem(sequence, i)).get());
}

// ---- read(value, object, name): a field of a rope or a scaling ----

void read(double& value, PyObject* object, const char* name) { value = double_of(object, name); }
void read(std::int64_t& value, PyObject* object, const char* name) { value = integer_of(object, name); }
void read(std::vector<double>& value, PyObject* object, const char* name) { value = doubles_of(object, name); }
void read(std::vector<int>& value, PyObject* object, const char* name) { value = ints_of(object, name); }
void read(int& value, PyObject* object, const char* name) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  value = static_cast<int>(integer_within(object, name, -most - 1, most));
}
void read(bool& value, PyObject* object, const char* name) {
  if (PyBool_Check(object) == 0) raise_type_error(std::string(name) + " must be a bool but got " + type_name(object));
  value = object == Py_True;
}
void read(std::optional<double>& value, PyObject* object, const char* name) {
  if (object != Py_None) value = double_of(object, name);
}
void read(std::vector<std::uint8_t>& axes, PyObject* object, const char* name) {
  for_each_item(object, name,
                [&](PyObject* item) { axes.push_back(static_cast<std::uint8_t>(integer_within(item, name, 0, 255))); });
}
void read(Pairing& value, PyObject* object, const char* name) {
  if (object != Py_None) value = parse_pairing(view_of(object, name));
}
void read(Scaling& value, PyObject* object, const char*) {
  const Ref word = attribute_or_null(object, "_name");
  if (!word) {
    raise_type_error("scaling must be a rotary.Unscaled, Linear, Ntk, NtkFixed, Dynamic, Yarn, LongRope, Llama3 or " +
                     std::string("Proportional but got ") + type_name(object));
  }
  value = parse_scaling(view_of(word.get(), "scaling"));
  std::visit(
      [&](auto& held) {
        scalings::for_each_field(held, [&](const auto& field, auto& member) {
          read(member, checked(PyObject_GetAttrString(object, field.name)).get(), field.name);
        });
      },
      value);
}

Ref words_of_scaling(const Scaling& scaling) {
  Ref words = checked(PyDict_New());
  scalings::for_each_field(scaling, [&](const auto& field, const auto& value) { put(words, field.name, value); });
  return words;
}

// visit(name, member) for each value of a rope.
template <class AnyRope, class Visit>
void for_each_value(AnyRope& rope, const Visit& visit) {
  visit("head_dim", rope.head_dim);
  visit("rotary_dim", rope.rotary_dim);
  visit("base", rope.base);
  visit("pairing", rope.pairing);
  visit("scaling", rope.scaling);
  visit("axis", rope.axis);
  visit("index", rope.index);
  visit("exponent_dim", rope.exponent_dim);
  visit("clockwise", rope.clockwise);
  visit("inv_freq", rope.inv_freq);
  visit("multiplier", rope.multiplier);
}

Ref object_of(Pairing value) { return new_text(name(value)); }
Ref object_of(const Scaling& value) {
  return checked(Py_BuildValue("(sN)", name(value), words_of_scaling(value).release()));
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
  for_each_item(sequence, what, [&](PyObject* item) { read(values.emplace_back(), item, what); });
  return values;
}

std::vector<std::string> texts_of(PyObject* sequence, const char* what) {
  std::vector<std::string> values;
  for_each_item(sequence, what, [&](PyObject* item) { values.push_back(text_of(item, what)); });
  return values;
}

PyObject* Words::find(const char* name) const {
  PyObject* value = PyDict_GetItemString(dict, name);
  return value == Py_None ? nullptr : value;
}

Rope rope_from(PyObject* object) {
  Rope rope;
  for_each_value(rope, [&](const char* name, auto& value) {
    read(value, checked(PyObject_GetAttrString(object, name)).get(), name);
  });
  return rope;
}

Ref words_of(const Rope& rope) {
  Ref words = checked(PyDict_New());
  for_each_value(rope, [&](const char* name, const auto& value) {
    checked(PyDict_SetItemString(words.get(), name, object_of(value).get()));
  });
  return words;
}

Ref scaling_words() {
  Ref all = checked(PyDict_New());
  scalings::for_each_scaling([&](const auto& scaling) { put(all, name(Scaling(scaling)), words_of_scaling(scaling)); });
  return all;
}

}  // namespace rotary::python
