#include "given.h"

#include <cstring>

namespace rotary::python {

namespace {

// A copy of the elements, rounded to f32.
std::vector<float> copied(const ArrayView& view) {
  std::vector<float> values(static_cast<std::size_t>(view.elements()));
  float* to = values.data();
  for_each_element(view, [&to](auto value) { *to++ = static_cast<float>(real(value)); });
  return values;
}

void check_rows(const ArrayView& cos, const ArrayView& sin, const char* operation) {
  if (!is_float(cos.type) || !is_float(sin.type)) {
    const ElementType wrong = is_float(cos.type) ? sin.type : cos.type;
    fail(Code::DTYPE, operation, "cos and sin must hold floats but got ", name(wrong));
  }
  if (cos.ndim != sin.ndim || cos.shape != sin.shape || cos.ndim < 2 || cos.ndim > 4 || cos.columns() > (1 << 20)) {
    fail(Code::SHAPE, operation, "cos and sin must both be [tokens, columns], [batch, tokens, columns] or ",
         "[batch, tokens, heads, columns] but got ", cos.shape_text(), " and ", sin.shape_text());
  }
}

// Keeps the first of each pair of equal columns of doubled rows.
void keep_one_of_two(ArrayView& rows, std::string_view doubled) {
  const auto last = static_cast<std::size_t>(rows.ndim - 1);
  rows.shape[last] /= 2;
  if (doubled == "neighbours") rows.strides[last] *= 2;
}

// How the columns of cos and of sin repeat, bit for bit: "halves", "neighbours", "both", or "" if they do not. "even"
// if each row is one number, as at position 0, which shows nothing.
const char* doubling(const ArrayView& cos, const ArrayView& sin) {
  // Whether each of `count` columns, which are `next` apart, equals the column `second` behind it.
  const auto repeat = [&](std::int64_t count, std::int64_t second, std::int64_t next) {
    bool same = true;
    for (const ArrayView* view : {&cos, &sin}) {
      with_type_of(*view, [&, step = view->column_step()](auto value) {
        for_each_row(*view, [&](const char* row) {
          for (std::int64_t i = 0, most = same ? count : 0; i < most; ++i, row += next * step)
            same &= std::memcmp(row, row + second * step, sizeof value) == 0;
        });
      });
    }
    return same;
  };
  const std::int64_t columns = cos.columns(), pairs = columns / 2;
  if (columns % 2 != 0) return "";
  const bool halves = repeat(pairs, pairs, 1), neighbours = repeat(pairs, 1, 2);
  if (halves && neighbours) return repeat(columns - 1, 1, 1) ? "even" : "both";
  return halves ? "halves" : neighbours ? "neighbours" : "";
}

Ref get_doubling(PyObject* operation, PyObject* c, PyObject* s) {
  const ArrayView cos(c, "cos"), sin(s, "sin");
  check_rows(cos, sin, string_of(operation, "operation").c_str());
  return checked(Py_BuildValue("(sL)", doubling(cos, sin), static_cast<long long>(cos.columns())));
}

}  // namespace

GivenTable::GivenTable(PyObject* object, const char* operation, bool borrows) {
  static PyObject* const rows_word = PyUnicode_InternFromString("_rows");
  table_ = table_or_null(object);
  if (table_ != nullptr) return;
  rows_ = PyTuple_Check(object) != 0 ? Ref::borrowed(object) : attribute_or_null(object, rows_word);
  if (!rows_ || PyTuple_Check(rows_.get()) == 0 || PyTuple_Size(rows_.get()) != 4) {
    raise_type_error("[", operation, "] table must be a rotary.Table but got ", type_name(object),
                     ": make one with rotary.Table(rope, positions), or of rows with rotary.from_doubled (frameworks' ",
                     "doubled rows) or rotary.from_rows");
  }
  PyObject* rows = rows_.get();
  const Pairing pairing = parse_pairing(view_of(PyTuple_GetItem(rows, 2), "pairing"));
  const std::string_view doubled = view_of(PyTuple_GetItem(rows, 3), "doubled");
  ArrayView& cos = cos_view_.emplace(PyTuple_GetItem(rows, 0), "cos");
  ArrayView& sin = sin_view_.emplace(PyTuple_GetItem(rows, 1), "sin");
  check_rows(cos, sin, operation);
  if (!doubled.empty()) {
    for (ArrayView* both : {&cos, &sin}) keep_one_of_two(*both, doubled);
  }
  const int batch = cos.ndim > 2 ? static_cast<int>(cos.shape[0]) : 1;
  const int heads = cos.ndim > 3 ? static_cast<int>(cos.shape[2]) : 1;
  const auto floats = [&](const ArrayView& view, std::vector<float>& copy) -> std::span<const float> {
    const bool there = borrows && view.type == ElementType::f32 && view.is_contiguous() &&
                       reinterpret_cast<std::uintptr_t>(view.data) % alignof(float) == 0;
    if (there) return {static_cast<const float*>(view.data), static_cast<std::size_t>(view.elements())};
    return copy = copied(view);
  };
  own_.emplace(
      Table::borrow(floats(cos, cos_), floats(sin, sin_), static_cast<int>(cos.columns()), pairing, batch, heads));
  table_ = &*own_;
}

std::vector<PyMethodDef> rows_methods() { return {method<get_doubling>("_doubling")}; }

}  // namespace rotary::python
