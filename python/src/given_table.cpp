#include "given_table.h"

#include <cstring>
#include <string>

#include "arguments.h"
#include "types.h"

namespace rotary::python {

namespace {

enum class Doubled : std::uint8_t { no, halves, neighbours };

Doubled doubled_of(const char* operation, std::string_view word) {
  if (word.empty()) return Doubled::no;
  if (word == "halves") return Doubled::halves;
  if (word == "neighbours") return Doubled::neighbours;
  fail(Code::VALUE, operation,
       "doubled must be \"\", \"halves\" or \"neighbours\" but got \"" + std::string(word) + "\"");
}

float as_float(float value) { return value; }
float as_float(double value) { return static_cast<float>(value); }
float as_float(f16 value) { return to_float(value); }
float as_float(bf16 value) { return to_float(value); }

// Calls visit(row) with the first byte of each row, in row-major order.
template <class Visit>
void for_each_row(const ArrayView& view, const Visit& visit) {
  const auto rank = static_cast<std::size_t>(view.ndim);
  const std::int64_t batch = rank == 3 ? view.shape[0] : 1, tokens = view.shape[rank - 2];
  const std::int64_t batch_step = rank == 3 ? view.strides[0] : 0, step = view.strides[rank - 2];
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t t = 0; t < tokens; ++t) visit(static_cast<const char*>(view.data) + b * batch_step + t * step);
  }
}

std::int64_t columns_of(const ArrayView& view) { return view.shape[static_cast<std::size_t>(view.ndim - 1)]; }
std::int64_t column_step(const ArrayView& view) { return view.strides[static_cast<std::size_t>(view.ndim - 1)]; }

template <class T>
std::vector<float> copied(const ArrayView& view, std::int64_t pairs, std::int64_t step) {
  std::vector<float> values(
      columns_of(view) == 0 ? 0 : static_cast<std::size_t>(view.elements() / columns_of(view) * pairs));
  float* to = values.data();
  for_each_row(view, [&](const char* row) {
    for (std::int64_t i = 0; i < pairs; ++i, row += step) {
      T value;
      std::memcpy(&value, row, sizeof value);
      *to++ = as_float(value);
    }
  });
  return values;
}

std::vector<float> copied(const ArrayView& view, std::int64_t pairs, std::int64_t step) {
  switch (view.type) {
    case ElementType::f32:
      return copied<float>(view, pairs, step);
    case ElementType::f64:
      return copied<double>(view, pairs, step);
    case ElementType::f16:
      return copied<f16>(view, pairs, step);
    default:
      return copied<bf16>(view, pairs, step);
  }
}

bool can_be_borrowed(const ArrayView& view) {
  return view.type == ElementType::f32 && view.is_contiguous() &&
         reinterpret_cast<std::uintptr_t>(view.data) % alignof(float) == 0;
}

void check_rows(const ArrayView& cos, const ArrayView& sin, const char* operation) {
  if (!is_float(cos.type) || !is_float(sin.type)) {
    const ElementType wrong = is_float(cos.type) ? sin.type : cos.type;
    fail(Code::DTYPE, operation, "cos and sin must hold floats but got " + std::string(name(wrong)));
  }
  if (cos.ndim != sin.ndim || cos.shape != sin.shape || cos.ndim < 2 || cos.ndim > 3 || columns_of(cos) > (1 << 20)) {
    fail(Code::SHAPE, operation,
         "cos and sin must both be [tokens, columns] or [batch, tokens, columns] but got " + cos.shape_text() +
             " and " + sin.shape_text());
  }
}

template <class Word>
bool repeats(const ArrayView& view, bool halves) {
  const std::int64_t pairs = columns_of(view) / 2, step = column_step(view);
  const std::int64_t next = halves ? pairs * step : step, stride = halves ? step : 2 * step;
  bool same = true;
  for_each_row(view, [&](const char* row) {
    Word difference = 0;
    for (std::int64_t i = 0; same && i < pairs; ++i, row += stride) {
      Word first, second;
      std::memcpy(&first, row, sizeof first);
      std::memcpy(&second, row + next, sizeof second);
      difference |= first ^ second;
    }
    same = same && difference == 0;
  });
  return same;
}

bool repeats(const ArrayView& view, bool halves) {
  if (columns_of(view) % 2 != 0) return false;
  switch (bits_of(view.type)) {
    case 64:
      return repeats<std::uint64_t>(view, halves);
    case 32:
      return repeats<std::uint32_t>(view, halves);
    default:
      return repeats<std::uint16_t>(view, halves);
  }
}

}  // namespace

GivenTable::GivenTable(PyObject* object, const char* operation, bool borrows) {
  static PyObject* const rows_word = PyUnicode_InternFromString("_rows");
  table_ = table_or_null(object);
  if (table_ != nullptr) return;
  if (PyTuple_Check(object) != 0) {
    rows_ = Ref::borrowed(object);
  } else {
    rows_ = Ref(PyObject_GetAttr(object, rows_word));
    if (!rows_) PyErr_Clear();
  }
  if (!rows_ || PyTuple_Check(rows_.get()) == 0 || PyTuple_Size(rows_.get()) != 4) refuse_table(object, operation);
  read_rows(rows_.get(), operation, borrows);
}

void GivenTable::read_rows(PyObject* rows, const char* operation, bool borrows) {
  const Pairing pairing = parse_pairing(view_of(PyTuple_GetItem(rows, 2), "pairing"));
  const Doubled doubled = doubled_of(operation, view_of(PyTuple_GetItem(rows, 3), "doubled"));
  const ArrayView& cos = cos_view_.emplace(PyTuple_GetItem(rows, 0), "cos");
  const ArrayView& sin = sin_view_.emplace(PyTuple_GetItem(rows, 1), "sin");
  check_rows(cos, sin, operation);
  const std::int64_t columns = columns_of(cos), pairs = doubled == Doubled::no ? columns : columns / 2;
  if (doubled != Doubled::no && columns % 2 != 0) {
    fail(Code::SHAPE, operation,
         "doubled rows must have two columns for each pair but got " + std::to_string(columns) + " columns");
  }
  const int batch = cos.ndim == 3 ? static_cast<int>(cos.shape[0]) : 1;
  const auto as_table = [&](std::span<const float> c, std::span<const float> s) {
    own_.emplace(Table::borrow(c, s, static_cast<int>(pairs), pairing, batch));
    table_ = &*own_;
  };
  if (borrows && doubled == Doubled::no && can_be_borrowed(cos) && can_be_borrowed(sin)) {
    const auto count = static_cast<std::size_t>(cos.elements());
    return as_table({static_cast<const float*>(cos.data), count}, {static_cast<const float*>(sin.data), count});
  }
  const std::int64_t wide = doubled == Doubled::neighbours ? 2 : 1;
  cos_ = copied(cos, pairs, column_step(cos) * wide);
  sin_ = copied(sin, pairs, column_step(sin) * wide);
  as_table(cos_, sin_);
}

PyObject* doubling_of(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words) {
  static const Signature<2> signature{"_doubling", 2, 2, {"cos", "sin"}};
  return guarded([&]() -> PyObject* {
    const auto [c, s] = signature.read(arguments, given, words);
    const ArrayView cos(c, "cos"), sin(s, "sin");
    check_rows(cos, sin, "rows");
    const bool halves = repeats(cos, true) && repeats(sin, true);
    const bool neighbours = repeats(cos, false) && repeats(sin, false);
    return new_text(halves && neighbours ? "both" : halves ? "halves" : neighbours ? "neighbours" : "").release();
  });
}

}  // namespace rotary::python
