#include "values.h"

#include <algorithm>
#include <limits>
#include <string>

#include "arrays.h"

namespace rotary::python {

namespace {

constexpr const char* operation = "positions";

void add_array(GivenPositions& given, PyObject* object) {
  const ArrayView view(object, operation);
  if (!is_integer(view.type) && !is_float(view.type)) {
    fail(Code::DTYPE, operation, "an array must hold integers or floats but got ", type_word(view.type));
  }
  if (bits_of(view.type) < 32 && is_float(view.type)) {
    fail(Code::DTYPE, operation, "an array of floats must be float32 or float64 but got ", type_word(view.type),
         ", which has not all integers above ", (view.type == ElementType::f16 ? "2048" : "256"),
         ": make the positions in another type");
  }
  given.shape.assign(view.shape.begin(), view.shape.begin() + view.ndim);
  for_each_offset(view, [&, real = is_float(view.type)](const void* place) {
    if (real) {
      given.reals.push_back(real_at(place, view.type));
    } else {
      given.integers.push_back(integer_at(place, view.type));
    }
  });
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
    fail(Code::SHAPE, operation, "the first dimension must be the rope's ", axes, " axes, or 1, but got ", given.axes,
         ": give [axes, tokens] or [axes, batch, tokens]");
  }
  given.batched = shape.size() == (several ? 3U : 2U);
  if (given.batched) given.batch = small(shape[shape.size() - 2]);
}

}  // namespace

GivenPositions positions_from(PyObject* object, int axes) {
  GivenPositions given;
  PyObject *values = object, *shape = nullptr;
  if (PyTuple_Check(object) != 0 && PyArg_ParseTuple(object, "OO", &values, &shape) == 0) throw Raised{};
  if (PyTuple_Check(values) != 0) {
    long long first = 0, step = 0, count = 1;
    if (PyArg_ParseTuple(values, "LL", &first, &step) == 0 || PyArg_ParseTuple(shape, "|L", &count) == 0)
      throw Raised{};
    given.shape.assign(static_cast<std::size_t>(PyTuple_Size(shape)), count);
    given.integers.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) given.integers.push_back(first + i * step);
  } else {
    add_array(given, values);
    if (shape != nullptr) {
      const std::vector<int> sizes = ints_of(shape, operation);
      given.shape.assign(sizes.begin(), sizes.end());
    }
  }
  set_shape(given, axes);
  const auto size = static_cast<std::int64_t>(given.reals.size() + given.integers.size());
  given.tokens = size / std::max(1, given.axes * given.batch);
  return given;
}

}  // namespace rotary::python
