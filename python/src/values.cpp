#include "values.h"

#include <concepts>
#include <limits>
#include <memory>

#include "arrays.h"
#include "rotary/config.h"
#include "values/scaling_fields.h"

namespace rotary::python {

namespace {

std::int64_t integer_within(PyObject* number, const char* what, std::int64_t least, std::int64_t most) {
  const std::int64_t value = integer_of(number, what);
  if (value < least || value > most) {
    fail(Code::SHAPE, "Rope", what, " must be from ", least, " to ", most, " but got ", value);
  }
  return value;
}

// visit(item) for each of a sequence.
template <class Visit>
void for_each_item(PyObject* sequence, const char* what, const Visit& visit) {
  if (PySequence_Check(sequence) == 0 || PyUnicode_Check(sequence) != 0) {
    raise_type_error(what, " must be a sequence but got ", type_name(sequence));
  }
  const Py_ssize_t size = PySequence_Size(sequence);
  if (size < 0) throw Raised{};
  for (Py_ssize_t i = 0; i < size; ++i) visit(checked(PySequence_GetItem(sequence, i)).get());
}

// ---- read(value, object, name): a field of a rope or a scaling ----

void read(double& value, PyObject* object, const char* name) { value = double_of(object, name); }
void read(std::int64_t& value, PyObject* object, const char* name) { value = integer_of(object, name); }
void read(std::vector<double>& value, PyObject* object, const char* name) { value = doubles_of(object, name); }
void read(std::vector<float>& value, PyObject* object, const char* name) {
  for (const double wide : doubles_of(object, name)) value.push_back(static_cast<float>(wide));
}
void read(std::vector<int>& value, PyObject* object, const char* name) { value = ints_of(object, name); }
void read(int& value, PyObject* object, const char* name) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  value = static_cast<int>(integer_within(object, name, -most - 1, most));
}
void read(bool& value, PyObject* object, const char* name) {
  if (PyBool_Check(object) == 0) raise_type_error(name, " must be a bool but got ", type_name(object));
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
    raise_type_error("scaling must be a rotary.Unscaled, Linear, Ntk, NtkFixed, Dynamic, Yarn, LongRope, Llama3 or ",
                     "Proportional but got ", type_name(object));
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

// visit(name, member) for each value of a rope, or of frequencies.
template <class AnyRope, class Visit>
requires(std::same_as<std::remove_const_t<AnyRope>, Rope>) void for_each_value(AnyRope& rope, const Visit& visit) {
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
template <class AnyFrequencies, class Visit>
requires(std::same_as<std::remove_const_t<AnyFrequencies>, Frequencies>) void for_each_value(AnyFrequencies& speeds,
                                                                                             const Visit& visit) {
  visit("inv_freq", speeds.inv_freq);
  visit("pairing", speeds.pairing);
  visit("axis", speeds.axis);
  visit("attention_factor", speeds.attention_factor);
  visit("clockwise", speeds.clockwise);
  visit("inv_freq_float32", speeds.inv_freq_float32);
}

// ---- told(value) ----

template <class Value>
files::Json told(const Value& value) {
  return value;
}
files::Json told(const std::optional<double>& value) { return value ? files::Json(*value) : files::Json(); }
files::Json told(Pairing value) { return name(value); }
files::Json told(const Scaling& scaling) {
  files::Json words = {{"name", name(scaling)}};
  scalings::for_each_field(scaling, [&](const auto& field, const auto& value) { words[field.name] = told(value); });
  return words;
}

template <class Value>
files::Json words_of(const Value& value) {
  files::Json words;
  for_each_value(value, [&](const char* name, const auto& member) { words[name] = told(member); });
  return words;
}

// ---- handles: capsules ----

constexpr const char *rope_name = "rotary rope", *speeds_name = "rotary frequencies";

void check(const Rope& rope) { frequencies(rope, 0); }
void check(const Frequencies& speeds) {
  const auto fits = [pairs = speeds.inv_freq.size()](std::size_t size) { return size == 0 || size == pairs; };
  if (fits(speeds.axis.size()) && fits(speeds.inv_freq_float32.size())) return;
  fail(Code::SHAPE, "Frequencies", "axis and inv_freq_float32 must have one value for each of the ",
       speeds.inv_freq.size(), " pairs");
}

// Of the attributes of an object.
template <class Value>
Ref handle_of(PyObject* object, const char* name) {
  auto made = std::make_unique<Value>();
  for_each_value(*made, [&](const char* member, auto& value) {
    read(value, checked(PyObject_GetAttrString(object, member)).get(), member);
  });
  check(*made);
  Ref capsule = checked(PyCapsule_New(made.get(), name, [](PyObject* held) {
    delete static_cast<Value*>(PyCapsule_GetPointer(held, PyCapsule_GetName(held)));
  }));
  made.release();
  return capsule;
}

template <class Value>
const Value* held(PyObject* capsule, const char* name) {
  return PyCapsule_IsValid(capsule, name) == 0 ? nullptr : static_cast<Value*>(PyCapsule_GetPointer(capsule, name));
}

Ref make_rope(PyObject* object) { return handle_of<Rope>(object, rope_name); }
Ref make_speeds(PyObject* object) { return handle_of<Frequencies>(object, speeds_name); }

Ref tell_frequencies(PyObject* object, PyObject* length) {
  const Rope& rope = rope_of(object);
  return text_of(words_of(length == Py_None ? frequencies(rope) : frequencies(rope, integer_of(length, "length"))));
}

Ref get_doubles(PyObject* values, PyObject* what) {
  return bytes_of(doubles_of(values, text_of(what, "name").c_str()));
}

// The same fields as Python's own numbers.
Ref tell_rope(PyObject* object) { return text_of(json_of(rope_of(object))); }

Ref tell_scalings() {
  files::Json all;
  scalings::for_each_scaling([&](const auto& scaling) { all.push_back(told(Scaling(scaling))); });
  return text_of(all);
}

Ref tell_parameters(PyObject* rope) { return new_text(rope_parameters(rope_of(rope))); }

Ref make_axes(PyObject* kind, PyObject* counts) {
  const std::vector<int> sections = ints_of(counts, "sections");
  const std::string_view word = view_of(kind, "kind");
  return bytes_of(word == "sectioned"     ? sectioned_axes(sections)
                  : word == "interleaved" ? interleaved_axes(sections)
                                          : ernie_axes(sections));
}

Ref make_axial(PyObject* head_dim, PyObject* axes, PyObject* base, PyObject* pairing) {
  int size = 0, count = 0;
  read(size, head_dim, "head_dim");
  read(count, axes, "axes");
  return text_of(json_of(axial(size, count, double_of(base, "base"), parse_pairing(view_of(pairing, "pairing")))));
}

}  // namespace

Ref tuple_of(std::span<const std::int64_t> values) {
  Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  Py_ssize_t at = 0;
  for (const std::int64_t value : values) checked(PyTuple_SetItem(tuple.get(), at++, PyLong_FromLongLong(value)));
  return tuple;
}

files::Json json_of(const Rope& rope) { return words_of(rope); }

double double_of(PyObject* number, const char* what) {
  const double value = PyFloat_AsDouble(number);
  if (value == -1 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw Raised{};
    PyErr_Clear();
    raise_type_error(what, " must be a number but got ", type_name(number));
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
  if (view.ndim != 1) fail(Code::SHAPE, what, "it must have one dimension but got ", view.shape_text());
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

const Rope& rope_of(PyObject* rope) {
  const Ref handle = checked(PyObject_GetAttrString(rope, "_handle"));
  const Rope* found = held<Rope>(handle.get(), rope_name);
  if (found == nullptr) raise_type_error("a rotary.Rope must be made by its class");
  return *found;
}

const Frequencies* frequencies_or_null(PyObject* capsule) { return held<Frequencies>(capsule, speeds_name); }

std::vector<PyMethodDef> value_methods() {
  return {method<make_rope>("_rope"),
          method<make_speeds>("_speeds"),
          method<tell_frequencies>("_frequencies"),
          method<get_doubles>("_doubles"),
          method<tell_rope>("_check_rope"),
          method<tell_scalings>("_scalings"),
          method<tell_parameters>("_rope_parameters"),
          method<make_axes>("_axes"),
          method<make_axial>("_axial")};
}

}  // namespace rotary::python
