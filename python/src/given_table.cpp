#include "given_table.h"

#include <concepts>
#include <cstring>
#include <string>

#include "table_handle.h"

namespace rotary::python {

namespace {

enum class Doubled : std::uint8_t { no, halves, neighbours };

Doubled doubled_of(const char* operation, PyObject* word) {
  const std::string_view text = view_of(word, "doubled");
  if (text.empty()) return Doubled::no;
  if (text == "halves") return Doubled::halves;
  if (text == "neighbours") return Doubled::neighbours;
  refuse_word("check_doubled", operation, word);
}

float as_float(std::floating_point auto value) { return static_cast<float>(value); }
float as_float(auto value) { return to_float(value); }

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

// One column for each pair, rounded to f32.
std::vector<float> copied(const ArrayView& view, Doubled doubled) {
  const std::int64_t pairs = doubled == Doubled::no ? columns_of(view) : columns_of(view) / 2;
  const std::int64_t step = column_step(view) * (doubled == Doubled::neighbours ? 2 : 1);
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

void check_rows(const ArrayView& cos, const ArrayView& sin, Doubled doubled, const char* operation) {
  if (!is_float(cos.type) || !is_float(sin.type)) {
    const ElementType wrong = is_float(cos.type) ? sin.type : cos.type;
    fail(Code::DTYPE, operation, "cos and sin must hold floats but got " + std::string(name(wrong)));
  }
  if (cos.ndim != sin.ndim || cos.shape != sin.shape || cos.ndim < 2 || cos.ndim > 3 || columns_of(cos) > (1 << 20)) {
    fail(Code::SHAPE, operation,
         "cos and sin must both be [tokens, columns] or [batch, tokens, columns] but got " + cos.shape_text() +
             " and " + sin.shape_text());
  }
  if (doubled != Doubled::no && columns_of(cos) % 2 != 0) {
    fail(Code::SHAPE, operation,
         "doubled rows must have two columns for each pair but got " + std::to_string(columns_of(cos)) + " columns");
  }
}

// How far the second column of a pair lies from the first, and the next pair's first from this one's.
struct Repeat {
  std::int64_t second, next;
};

template <class Word>
bool repeats(const ArrayView& view, std::int64_t pairs, const Repeat& at) {
  bool same = true;
  for_each_row(view, [&](const char* row) {
    Word difference = 0;
    for (std::int64_t i = 0; same && i < pairs; ++i, row += at.next) {
      Word first, second;
      std::memcpy(&first, row, sizeof first);
      std::memcpy(&second, row + at.second, sizeof second);
      difference |= first ^ second;
    }
    same = same && difference == 0;
  });
  return same;
}

bool repeats(const ArrayView& view, std::int64_t pairs, const Repeat& at) {
  switch (bits_of(view.type)) {
    case 64:
      return repeats<std::uint64_t>(view, pairs, at);
    case 32:
      return repeats<std::uint32_t>(view, pairs, at);
    default:
      return repeats<std::uint16_t>(view, pairs, at);
  }
}

// "halves", "neighbours", "both" or "even" (each row is one number, as at position 0, so nothing can be told): how the
// columns of cos and of sin repeat, bit for bit; "" where they do not.
const char* doubling(const ArrayView& cos, const ArrayView& sin) {
  const std::int64_t columns = columns_of(cos), pairs = columns / 2;
  const auto both = [&](std::int64_t count, std::int64_t second, std::int64_t next) {
    const auto one = [&](const ArrayView& view) {
      return repeats(view, count, {second * column_step(view), next * column_step(view)});
    };
    return one(cos) && one(sin);
  };
  if (columns % 2 != 0) return "";
  const bool halves = both(pairs, pairs, 1), neighbours = both(pairs, 1, 2);
  if (halves && neighbours) return both(columns - 1, 1, 1) ? "even" : "both";
  return halves ? "halves" : neighbours ? "neighbours" : "";
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
    if (!rows_ && PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw Raised{};
    if (!rows_) PyErr_Clear();
  }
  if (!rows_ || PyTuple_Check(rows_.get()) == 0 || PyTuple_Size(rows_.get()) != 4) {
    raise_type_error(
        "[" + std::string(operation) + "] table must be a rotary.Table but got " + type_name(object) +
        ": make one with rotary.Table(rope, positions), or of rows with rotary.from_doubled (frameworks' " +
        "doubled rows) or rotary.from_rows");
  }
  read_rows(rows_.get(), operation, borrows);
}

void GivenTable::read_rows(PyObject* rows, const char* operation, bool borrows) {
  const Pairing pairing = parse_pairing(view_of(PyTuple_GetItem(rows, 2), "pairing"));
  const Doubled doubled = doubled_of(operation, PyTuple_GetItem(rows, 3));
  const ArrayView& cos = cos_view_.emplace(PyTuple_GetItem(rows, 0), "cos");
  const ArrayView& sin = sin_view_.emplace(PyTuple_GetItem(rows, 1), "sin");
  check_rows(cos, sin, doubled, operation);
  const std::int64_t columns = columns_of(cos), pairs = doubled == Doubled::no ? columns : columns / 2;
  const int batch = cos.ndim == 3 ? static_cast<int>(cos.shape[0]) : 1;
  const auto as_table = [&](std::span<const float> c, std::span<const float> s) {
    own_.emplace(Table::borrow(c, s, static_cast<int>(pairs), pairing, batch));
    table_ = &*own_;
  };
  if (borrows && doubled == Doubled::no && can_be_borrowed(cos) && can_be_borrowed(sin)) {
    const auto count = static_cast<std::size_t>(cos.elements());
    return as_table({static_cast<const float*>(cos.data), count}, {static_cast<const float*>(sin.data), count});
  }
  cos_ = copied(cos, doubled);
  sin_ = copied(sin, doubled);
  as_table(cos_, sin_);
}

namespace {

PyObject* get_doubling(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    const auto [operation, c, s] = arguments<3>(given, count);
    const ArrayView cos(c, "cos"), sin(s, "sin");
    check_rows(cos, sin, Doubled::no, text_of(operation, "operation").c_str());
    return checked(Py_BuildValue("(sL)", doubling(cos, sin), static_cast<long long>(columns_of(cos))));
  });
}

PyObject* get_single(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    const auto [word, c, s, how] = arguments<4>(given, count);
    const std::string operation = text_of(word, "operation");
    const ArrayView cos(c, "cos"), sin(s, "sin");
    const Doubled doubled = doubled_of(operation.c_str(), how);
    check_rows(cos, sin, doubled, operation.c_str());
    const Ref shape = checked(PyList_New(0));
    for (std::size_t d = 0; d < static_cast<std::size_t>(cos.ndim); ++d) {
      const bool halved = doubled != Doubled::no && d + 1 == static_cast<std::size_t>(cos.ndim);
      checked(PyList_Append(shape.get(), checked(PyLong_FromLongLong(cos.shape[d] / (halved ? 2 : 1))).get()));
    }
    const std::vector<float> first = copied(cos, doubled), second = copied(sin, doubled);
    return checked(Py_BuildValue("(NNN)", new_bytes(first.data(), first.size() * sizeof(float)).release(),
                                 new_bytes(second.data(), second.size() * sizeof(float)).release(),
                                 PyList_AsTuple(shape.get())));
  });
}

}  // namespace

std::vector<PyMethodDef> given_table_methods() {
  return {placed("_doubling", get_doubling), placed("_single", get_single)};
}

}  // namespace rotary::python
