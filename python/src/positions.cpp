#include "positions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "arrays.h"

namespace rotary::python {

namespace {

constexpr const char* operation = "positions";
constexpr std::int64_t most_int64 = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void refuse(PyObject* object) {
  raise_type_error("[positions] positions must be an int, a range, a list of numbers, or an array of integers or " +
                   std::string("floats but got ") + type_name(object));
}

void add_number(GivenPositions& given, PyObject* number) {
  if (PyBool_Check(number) != 0) refuse(number);
  if (PyFloat_Check(number) != 0) {
    given.real = true;
    given.reals.push_back(PyFloat_AsDouble(number));
    return;
  }
  const Ref index(PyNumber_Index(number));
  if (!index) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw Raised{};
    PyErr_Clear();
    refuse(number);
  }
  const long long value = PyLong_AsLongLong(index.get());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    fail(Code::POSITION, operation, "a position must fit 64 bits but got " + repr_of(number));
  }
  given.integers.push_back(value);
  given.reals.push_back(static_cast<double>(value));
}

bool is_list(PyObject* object) { return PyList_Check(object) != 0 || PyTuple_Check(object) != 0; }

// Nested lists of one depth, whose lists of a level have one length.
void add_list(GivenPositions& given, PyObject* list, std::size_t depth) {
  const Py_ssize_t size = PySequence_Size(list);
  if (size < 0) throw Raised{};
  if (depth == given.shape.size()) given.shape.push_back(size);
  if (depth > 2 || given.shape[depth] != size) {
    fail(Code::SHAPE, operation,
         depth > 2 ? "lists must be nested at most three deep"
                   : "rows must have one length but got " + std::to_string(given.shape[depth]) + " and " +
                         std::to_string(size));
  }
  bool lists = false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Ref item = checked(PySequence_GetItem(list, i));
    if (i == 0) lists = is_list(item.get());
    if (lists != is_list(item.get())) fail(Code::SHAPE, operation, "a list must hold numbers or lists, not both");
    if (lists) {
      add_list(given, item.get(), depth + 1);
    } else {
      add_number(given, item.get());
    }
  }
}

bool is_range(PyObject* object) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == reinterpret_cast<PyObject*>(&PyRange_Type);
}

void add_range(GivenPositions& given, PyObject* range) {
  const Py_ssize_t size = PySequence_Size(range);
  if (size < 0) throw Raised{};
  given.shape = {size};
  if (size == 0) return;
  const auto at = [range](const char* name) {
    const Ref value = checked(PyObject_GetAttrString(range, name));
    return integer_of(value.get(), operation);
  };
  const std::int64_t first = at("start"), step = size > 1 ? at("step") : 0;
  const Ref last = checked(PySequence_GetItem(range, size - 1));
  integer_of(last.get(), operation);  // fits, and so do all between
  given.integers.resize(static_cast<std::size_t>(size));
  std::int64_t position = first;
  for (std::size_t i = 0; i < given.integers.size(); ++i, position += i < given.integers.size() ? step : 0) {
    given.integers[i] = position;
  }
}

// A tensor of torch on another device is copied to the CPU, where tables are made.
Ref on_cpu(PyObject* object) {
  if (kind_of(object) != Kind::torch) return Ref::borrowed(object);
  const Ref here = checked(PyObject_GetAttrString(object, "is_cpu"));
  if (is_true(here.get())) return Ref::borrowed(object);
  return checked(PyObject_CallMethod(object, "cpu", nullptr));
}

void add_array(GivenPositions& given, PyObject* object) {
  const Ref here = on_cpu(object);
  const ArrayView view(here.get(), operation);
  if (!is_integer(view.type) && !is_float(view.type)) {
    fail(Code::DTYPE, operation, "an array must hold integers or floats but got " + type_word(view.type));
  }
  if (bits_of(view.type) < 32 && is_float(view.type)) {
    fail(Code::DTYPE, operation,
         "an array of floats must be float32 or float64 but got " + type_word(view.type) +
             ", which has not all integers above " + (view.type == ElementType::f16 ? "2048" : "256") +
             ": make the positions in another type");
  }
  given.shape.assign(view.shape.begin(), view.shape.begin() + view.ndim);
  given.real = is_float(view.type);
  const auto count = static_cast<std::size_t>(view.elements());
  if (given.real) {
    given.reals.reserve(count);
    for_each_offset(view, [&](const void* place) { given.reals.push_back(real_at(place, view.type)); });
  } else {
    given.integers.reserve(count);
    for_each_offset(view, [&](const void* place) { given.integers.push_back(integer_at(place, view.type)); });
  }
}

void set_shape(GivenPositions& given, int axes) {
  const std::vector<std::int64_t>& shape = given.shape;
  const auto small = [](std::int64_t size) {
    if (size > std::numeric_limits<int>::max()) fail(Code::SHAPE, operation, "a dimension is too large");
    return static_cast<int>(size);
  };
  const bool several = axes > 1;
  if (shape.size() > (several ? 3U : 2U)) {
    fail(Code::SHAPE, operation,
         several ? "a rope of several axes must have [tokens], [axes, tokens] or [axes, batch, tokens] but got " +
                       std::to_string(shape.size()) + " dimensions"
                 : "a rope of one axis must have [tokens] or [batch, tokens] but got " + std::to_string(shape.size()) +
                       " dimensions");
  }
  if (several && shape.size() > 1) given.axes = small(shape[0]);
  if (several && shape.size() > 1 && given.axes != 1 && given.axes != axes) {
    fail(Code::SHAPE, operation,
         "the first dimension must be the rope's " + std::to_string(axes) + " axes, or 1, but got " +
             std::to_string(given.axes) + ": give [axes, tokens] or [axes, batch, tokens]");
  }
  given.batched = shape.size() == (several ? 3U : 2U);
  if (given.batched) given.batch = small(shape[shape.size() - 2]);
}

}  // namespace

Positions GivenPositions::view() const {
  return real ? Positions(reals, axes, batch) : Positions(integers, axes, batch);
}

std::int64_t GivenPositions::length() const {
  std::int64_t largest = -1;
  if (!real) {
    for (const std::int64_t position : integers) largest = std::max(largest, position);
    return largest == most_int64 ? largest : largest + 1;
  }
  for (const double position : reals) {
    if (position >= 9.2e18) return most_int64;
    if (position >= 0) largest = std::max(largest, static_cast<std::int64_t>(std::floor(position)));
  }
  return largest + 1;
}

GivenPositions positions_from(PyObject* object, int axes) {
  GivenPositions given;
  if (is_range(object)) {
    add_range(given, object);
  } else if (is_list(object)) {
    add_list(given, object, 0);
  } else if (PyLong_Check(object) != 0 || PyFloat_Check(object) != 0) {
    add_number(given, object);
  } else if (PyUnicode_Check(object) != 0 || object == Py_None) {
    refuse(object);
  } else {
    add_array(given, object);
  }
  if (given.real) {
    for (const std::int64_t integer : given.integers) {
      if (std::abs(static_cast<double>(integer)) > 0x1p53) {
        fail(Code::POSITION, operation,
             "integers beside floats must be at most 2^53 but got " + std::to_string(integer) +
                 ", which no double holds for sure");
      }
    }
    given.integers.clear();
  } else {
    given.reals.clear();
  }
  set_shape(given, axes);
  return given;
}

}  // namespace rotary::python
