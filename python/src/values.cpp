#include "values.h"

#include <limits>
#include <tuple>
#include <type_traits>

#include "arrays.h"
#include "rotary/config.h"
#include "rotary/makers.h"

namespace rotary::python {

namespace {

std::int64_t integer_within(PyObject* number, const char* what, std::int64_t least, std::int64_t most) {
  const std::int64_t value = integer_of(number, what);
  if (value < least || value > most) {
    fail(Code::SHAPE, "Rope", what, " must be from ", least, " to ", most, " but got ", value);
  }
  return value;
}

// ---- read(value, object, name): from a field of a rope or a scaling, or from an argument ----

void read(XPos& value, PyObject* object, const char* name);
void read(Scaling& value, PyObject* object, const char* name);
template <class Value>
void read(std::vector<Value>& values, PyObject* object, const char* name);
void read(double& value, PyObject* object, const char* name) { value = double_of(object, name); }
void read(float& value, PyObject* object, const char* name) { value = static_cast<float>(double_of(object, name)); }
void read(std::string& value, PyObject* object, const char* name) { value = string_of(object, name); }
void read(std::int64_t& value, PyObject* object, const char* name) { value = integer_of(object, name); }
void read(int& value, PyObject* object, const char* name) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  value = static_cast<int>(integer_within(object, name, -most - 1, most));
}
void read(std::uint8_t& value, PyObject* object, const char* name) {
  value = static_cast<std::uint8_t>(integer_within(object, name, 0, 255));
}
void read(std::uint64_t& value, PyObject* object, const char* name) {
  value = PyLong_AsUnsignedLongLong(checked(PyNumber_Index(object)).get());
  if (PyErr_Occurred() == nullptr) return;
  PyErr_Clear();
  fail(Code::VALUE, name, "the number must be from 0 to 2^64 - 1 but got ", repr_of(object));
}
void read(bool& value, PyObject* object, const char* name) {
  if (PyBool_Check(object) == 0) raise_type_error(name, " must be a bool but got ", type_name(object));
  value = object == Py_True;
}
void read(std::optional<double>& value, PyObject* object, const char* name) {
  if (object != Py_None) value = double_of(object, name);
}
void read(Pairing& value, PyObject* object, const char* name) {
  if (object != Py_None) value = parse_pairing(view_of(object, name));
}
template <class Member>
void read_attribute(PyObject* object, const char* name, Member& member) {
  read(member, checked(PyObject_GetAttrString(object, name)).get(), name);
}
void read(XPos& value, PyObject* object, const char*) {
  if (!attribute_or_null(object, "reciprocal"))
    raise_type_error("xpos must be a rotary.scalings.XPos but got ", type_name(object));
  read_attribute(object, "scale", value.scale);
  read_attribute(object, "center", value.center);
  read_attribute(object, "reciprocal", value.reciprocal);
}
void read(Axis& value, PyObject* object, const char*) {
  read_attribute(object, "width", value.width);
  read_attribute(object, "base", value.base);
  read_attribute(object, "stretch", value.stretch);
  read_attribute(object, "scaling", value.scaling);
}
// Reads a sequence; floats also from an array, in row-major order.
template <class Value>
void read(std::vector<Value>& values, PyObject* object, const char* name) {
  if constexpr (std::is_floating_point_v<Value>) {
    if (PyList_Check(object) == 0 && PyTuple_Check(object) == 0) {
      const ArrayView view(object, name);
      return for_each_element(view, [&](auto element) { values.push_back(static_cast<Value>(real(element))); });
    }
  }
  if (PySequence_Check(object) == 0 || PyUnicode_Check(object) != 0) {
    raise_type_error(name, " must be a sequence but got ", type_name(object));
  }
  const Py_ssize_t size = PySequence_Size(object);
  if (size < 0) throw Raised{};
  for (Py_ssize_t i = 0; i < size; ++i) {
    read(values.emplace_back(), checked(PySequence_GetItem(object, i)).get(), name);
  }
}
void read(Scaling& value, PyObject* object, const char*) {
  const Ref word = attribute_or_null(object, "name");
  if (!word) {
    raise_type_error("scaling must be one of rotary.scalings, such as Yarn, or a dict with rope_type, but got ",
                     type_name(object));
  }
  value = parse_scaling(view_of(word.get(), "scaling"));
  for (const ScalingValue& one : values_of(value))
    std::visit([&](auto* member) { read_attribute(object, one.name, *member); }, one.value);
}

// Calls visit(name, member) for each value of a rope or of frequencies.
template <class Value, class Visit>
void for_each_value(Value& value, const Visit& visit) {
  visit("inv_freq", value.inv_freq);
  visit("pairing", value.pairing);
  visit("axis", value.axis);
  visit("clockwise", value.clockwise);
  visit("head_rows", value.head_rows);
  visit("summed_axes", value.summed_axes);
  visit("phase", value.phase);
  visit("xpos", value.xpos);
  visit("attention_factor", value.attention_factor);
  if constexpr (std::is_same_v<const Value, const Frequencies>) {
    visit("inv_freq_float32", value.inv_freq_float32);
  } else {
    visit("head_dim", value.head_dim);
    visit("rotary_dim", value.rotary_dim);
    visit("base", value.base);
    visit("scaling", value.scaling);
    visit("index", value.index);
    visit("exponent_dim", value.exponent_dim);
    visit("multiplier", value.multiplier);
  }
}

// ---- field_json(value): the JSON of a field ----

template <class Value>
Json field_json(const Value& value) {
  return value;
}
Json field_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }
Json field_json(Pairing value) { return name(value); }
Json field_json(const XPos& value) {
  return {{"scale", value.scale}, {"center", value.center}, {"reciprocal", value.reciprocal}};
}
Json field_json(Scaling scaling) {
  Json words = {{"name", name(scaling)}};
  for (const ScalingValue& one : values_of(scaling))
    std::visit([&](const auto* value) { words[one.name] = field_json(*value); }, one.value);
  return words;
}

// ---- handles: capsules ----

constexpr const char *rope_name = "rotary rope", *speeds_name = "rotary frequencies";

template <class Value>
Value value_of(PyObject* object) {
  Value value;
  for_each_value(value, [&](const char* name, auto& member) { read_attribute(object, name, member); });
  return value;
}

template <class Value>
Ref handle_of(const Value& value, const char* name) {
  auto copy = std::make_unique<Value>(value);
  Ref capsule = checked(PyCapsule_New(copy.get(), name, [](PyObject* held) {
    delete static_cast<Value*>(PyCapsule_GetPointer(held, PyCapsule_GetName(held)));
  }));
  copy.release();
  return capsule;
}

// Null if the object has no such handle.
template <class Value>
const Value* held(PyObject* object, const char* name) {
  const Ref handle = attribute_or_null(object, "_handle");
  const bool is_one = handle && PyCapsule_IsValid(handle.get(), name) != 0;
  return is_one ? static_cast<Value*>(PyCapsule_GetPointer(handle.get(), name)) : nullptr;
}

// The handle of a rotary.Rope, and its fields as Python's numbers.
Ref make_rope(PyObject* object) {
  const Rope rope = value_of<Rope>(object);
  named("Rope", [&] { return frequencies(rope, 0); });  // checks it
  return checked(Py_BuildValue("(NN)", handle_of(rope, rope_name).release(), new_json(to_json(rope)).release()));
}

// The handle of a rotary.Frequencies and its other attributes but xpos, in their order.
Ref state_of(const Frequencies& speeds) {
  return checked(Py_BuildValue(
      "(NNsNdNNiiN)", handle_of(speeds, speeds_name).release(), bytes_of(speeds.inv_freq).release(),
      name(speeds.pairing), tuple_of(std::vector<std::int64_t>(speeds.axis.begin(), speeds.axis.end())).release(),
      speeds.attention_factor, PyBool_FromLong(speeds.clockwise ? 1 : 0), bytes_of(speeds.inv_freq_float32).release(),
      speeds.head_rows, speeds.summed_axes, bytes_of(speeds.phase).release()));
}

Ref make_speeds(PyObject* object) {
  const Frequencies speeds = value_of<Frequencies>(object);
  speeds.check();
  return state_of(speeds);
}

Ref speeds_of_rope(PyObject* object, PyObject* length) {
  const Rope& rope = rope_of(object);
  return state_of(length == Py_None ? frequencies(rope) : frequencies(rope, integer_of(length, "length")));
}

Ref get_parameters(PyObject* rope) { return new_text(rope_parameters(rope_of(rope))); }

// ---- the functions of rotary/makers.h, and makers of axes, by name ----

// The type in which a parameter's value is kept.
template <class Given>
struct Kept {
  using Value = std::remove_cvref_t<Given>;
};
template <class One>
struct Kept<std::span<const One>> {
  using Value = std::vector<One>;
};

Ref to_python(double value) { return checked(PyFloat_FromDouble(value)); }
Ref to_python(const Rope& value) { return new_json(to_json(value)); }
template <class Value>
Ref to_python(const std::vector<Value>& value) {
  return bytes_of(value);
}

// Calls the function. words: a dict of its arguments in their order.
template <auto function>
Ref made_by(PyObject* words) {
  return [words]<class Made, class... Given>(Made (*)(Given...)) {
    std::tuple<typename Kept<Given>::Value...> arguments;
    Py_ssize_t at = 0;
    const auto take = [&](auto& argument) {
      PyObject *name = nullptr, *value = nullptr;
      if (PyDict_Next(words, &at, &name, &value) == 0) raise_type_error("rotary._core: an argument is missing");
      read(argument, value, string_of(name, "name").c_str());
    };
    std::apply([&](auto&... each) { (take(each), ...); }, arguments);
    return to_python(std::apply(function, arguments));
  }(function);
}

constexpr Rope (*axial_equal)(int, int, double, Pairing) = axial;
constexpr Rope (*axial_widths)(int, std::span<const Axis>, Pairing) = axial;

Ref make(PyObject* name, PyObject* words) {
  return one_of<Ref (*)(PyObject*)>("makers", name, "maker",
                                    {{"sectioned_axes", made_by<sectioned_axes>},
                                     {"interleaved_axes", made_by<interleaved_axes>},
                                     {"ernie_axes", made_by<ernie_axes>},
                                     {"glm_axes", made_by<glm_axes>},
                                     {"openpangu_axes", made_by<openpangu_axes>},
                                     {"videorope_axes", made_by<videorope_axes>},
                                     {"axial", made_by<axial_equal>},
                                     {"axial_widths", made_by<axial_widths>},
                                     {"mixed_directions", made_by<mixed_directions>},
                                     {"random_angles", made_by<random_angles>},
                                     {"golden_directions", made_by<golden_directions>},
                                     {"geometric_frequencies", made_by<geometric_frequencies>},
                                     {"pixel_frequencies", made_by<pixel_frequencies>},
                                     {"clipped", made_by<clipped>},
                                     {"ntk_base", made_by<ntk_base>}})(words);
}

}  // namespace

Ref tuple_of(std::span<const std::int64_t> values) {
  Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  Py_ssize_t at = 0;
  for (const std::int64_t value : values) checked(PyTuple_SetItem(tuple.get(), at++, PyLong_FromLongLong(value)));
  return tuple;
}

Json to_json(const Rope& rope) {
  Json words;
  for_each_value(rope, [&](const char* name, const auto& member) { words[name] = field_json(member); });
  return words;
}

double double_of(PyObject* number, const char* what) {
  const double value = PyFloat_AsDouble(number);
  if (value == -1 && PyErr_Occurred() != nullptr) {
    const bool is_no_number = PyErr_ExceptionMatches(PyExc_TypeError) != 0;
    if (!is_no_number && PyErr_ExceptionMatches(PyExc_OverflowError) == 0) throw Raised{};
    PyErr_Clear();
    if (is_no_number) raise_type_error(what, " must be a number but got ", type_name(number));
    fail(Code::VALUE, what, "the number must fit a double but got ", repr_of(number));
  }
  return value;
}

template <class Value>
std::vector<Value> list_of(PyObject* sequence, const char* what) {
  std::vector<Value> values;
  read(values, sequence, what);
  return values;
}
template std::vector<int> list_of(PyObject*, const char*);
template std::vector<std::string> list_of(PyObject*, const char*);

PyObject* Words::find(const char* name) const {
  PyObject* value = PyDict_GetItemString(dict, name);
  return value == Py_None ? nullptr : value;
}

const Rope& rope_of(PyObject* rope) {
  const Rope* found = held<Rope>(rope, rope_name);
  if (found == nullptr) raise_type_error("a rope must be a rotary.Rope but got ", type_name(rope));
  return *found;
}

const Frequencies* frequencies_or_null(PyObject* object) { return held<Frequencies>(object, speeds_name); }

std::vector<PyMethodDef> value_methods() {
  return {method<make_rope>("_rope"), method<make_speeds>("_speeds"), method<speeds_of_rope>("_frequencies"),
          method<get_parameters>("_rope_parameters"), method<make>("_make")};
}

}  // namespace rotary::python
