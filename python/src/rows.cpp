// Tables of rows that somebody else made: one column for each pair, or two.
#include <algorithm>
#include <string>
#include <vector>

#include "arguments.h"
#include "arrays.h"
#include "types.h"

namespace rotary::python {

namespace {

struct Rows {
  std::vector<float> cos, sin;  // row-major [rows, columns]
  std::int64_t rows = 0;
  int columns = 0;
  int batch = 1;
  bool batched = false;
};

std::vector<float> floats_of(const ArrayView& view) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(view.elements()));
  for_each_offset(view, [&](const void* place) { values.push_back(static_cast<float>(real_at(place, view.type))); });
  return values;
}

Rows read_rows(const char* operation, PyObject* cos, PyObject* sin) {
  const ArrayView c(cos, "cos"), s(sin, "sin");
  if (!is_float(c.type) || !is_float(s.type)) {
    const ElementType wrong = is_float(c.type) ? s.type : c.type;
    fail(Code::DTYPE, operation, "cos and sin must hold floats but got " + std::string(name(wrong)));
  }
  const bool same = c.ndim == s.ndim && std::equal(c.shape.begin(), c.shape.begin() + c.ndim, s.shape.begin());
  if (!same || c.ndim < 2 || c.ndim > 3 || c.shape[static_cast<std::size_t>(c.ndim - 1)] > (1 << 20)) {
    fail(Code::SHAPE, operation,
         "cos and sin must both be [tokens, columns] or [batch, tokens, columns] but got " + c.shape_text() + " and " +
             s.shape_text());
  }
  Rows rows;
  rows.batched = c.ndim == 3;
  rows.batch = rows.batched ? static_cast<int>(c.shape[0]) : 1;
  rows.columns = static_cast<int>(c.shape[static_cast<std::size_t>(c.ndim - 1)]);
  rows.rows = rows.columns == 0 ? 0 : c.elements() / rows.columns;
  rows.cos = floats_of(c);
  rows.sin = floats_of(s);
  return rows;
}

// Whether element i of every row equals element i + step, for all i that begin a pair: step n where halves repeat,
// step 1 where neighbours do.
bool repeats(const std::vector<float>& values, int columns, bool halves) {
  const std::size_t width = static_cast<std::size_t>(columns), pairs = width / 2;
  for (std::size_t row = 0; row + width <= values.size(); row += width) {
    for (std::size_t i = 0; i < pairs; ++i) {
      const float first = values[row + (halves ? i : 2 * i)];
      const float second = values[row + (halves ? i + pairs : 2 * i + 1)];
      if (!(first == second)) return false;
    }
  }
  return true;
}

bool repeats(const Rows& rows, bool halves) {
  if (rows.columns % 2 != 0) return false;
  return repeats(rows.cos, rows.columns, halves) && repeats(rows.sin, rows.columns, halves);
}

// Whether every row is one number, as at position 0: then nothing can be told.
bool is_even(const Rows& rows) {
  const auto width = static_cast<std::size_t>(rows.columns);
  for (const std::vector<float>* values : {&rows.cos, &rows.sin}) {
    for (std::size_t i = 0; i < values->size(); ++i) {
      if ((*values)[i] != (*values)[i - i % width]) return false;
    }
  }
  return true;
}

std::vector<float> halved(const std::vector<float>& values, int columns, bool halves) {
  const std::size_t width = static_cast<std::size_t>(columns), pairs = width / 2;
  std::vector<float> single;
  single.reserve(values.size() / 2);
  for (std::size_t row = 0; row + width <= values.size(); row += width) {
    for (std::size_t i = 0; i < pairs; ++i) single.push_back(values[row + (halves ? i : 2 * i)]);
  }
  return single;
}

Pairing pairing_of(const char* operation, PyObject* word) {
  if (word == nullptr) {
    fail(Code::PAIRING, operation, "pairing must be half, interleaved or interleaved_to_half but is not given");
  }
  return parse_pairing(view_of(word, "pairing"));
}

Ref finish(const Rows& rows, int pairs, Pairing pairing) {
  return new_table(Table(rows.cos, rows.sin, pairs, pairing, rows.batch), rows.batched, Ref::borrowed(Py_None));
}

}  // namespace

PyObject* table_from_rows(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words) {
  static const Signature<4> signature{"from_rows", 4, 2, {"cos", "sin", "pairing", "repeated"}};
  return guarded([&]() -> PyObject* {
    const auto [cos, sin, word, repeated] = signature.read(arguments, given, words);
    const Pairing pairing = pairing_of("from_rows", word);
    const Rows rows = read_rows("from_rows", cos, sin);
    const bool allowed = repeated != nullptr && PyObject_IsTrue(repeated) == 1;
    if (!allowed && !is_even(rows) && (repeats(rows, true) || repeats(rows, false))) {
      fail(Code::SHAPE, "from_rows",
           "cos and sin must have one column for each pair but got " + std::to_string(rows.columns) +
               " columns of which each two are equal: frameworks' rows are doubled, use rotary.from_doubled (or pass "
               "repeated=True where the pairs do turn alike)");
    }
    return finish(rows, rows.columns, pairing).release();
  });
}

PyObject* table_from_doubled(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words) {
  static const Signature<4> signature{"from_doubled", 4, 2, {"cos", "sin", "pairing", "doubled"}};
  return guarded([&]() -> PyObject* {
    const auto [cos, sin, word, wanted] = signature.read(arguments, given, words);
    const Pairing pairing = pairing_of("from_doubled", word);
    Rows rows = read_rows("from_doubled", cos, sin);
    const std::string_view told = wanted == nullptr ? "" : view_of(wanted, "doubled");
    if (!told.empty() && told != "halves" && told != "neighbours") {
      fail(Code::VALUE, "from_doubled",
           "doubled must be \"halves\" or \"neighbours\" but got \"" + std::string(told) + "\"");
    }
    const bool halves = told != "neighbours" && repeats(rows, true);
    const bool neighbours = told != "halves" && (pairing != Pairing::half || !told.empty()) && repeats(rows, false);
    if (!halves && !neighbours) {
      fail(Code::SHAPE, "from_doubled",
           "cos and sin must hold each column twice, in two halves" +
               std::string(pairing == Pairing::half && told.empty() ? "" : " or side by side") + ", but got " +
               std::to_string(rows.columns) +
               " columns that do not: rows of one column for each pair are for rotary.from_rows");
    }
    const std::vector<float> c = halved(rows.cos, rows.columns, halves), s = halved(rows.sin, rows.columns, halves);
    if (halves && neighbours &&
        (c != halved(rows.cos, rows.columns, false) || s != halved(rows.sin, rows.columns, false))) {
      fail(Code::SHAPE, "from_doubled",
           "cos and sin must show how they are doubled but got rows that repeat in halves and side by side: take one "
           "column of each pair and use rotary.from_rows");
    }
    rows.cos = c;
    rows.sin = s;
    return finish(rows, rows.columns / 2, pairing).release();
  });
}

}  // namespace rotary::python
