#include "given.h"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <limits>

namespace rotary::python {

// ---- heads ----

LayoutWord::LayoutWord(PyObject* word, const char* operation) : operation_(operation) {
  if (word != Py_None) word_ = view_of(word, "layout");
  bool bad = word_.size() < 2 || word_.size() > 4 || word_.back() != 'd';
  for (std::size_t i = 0; !bad && i + 1 < word_.size(); ++i) {
    int* place = word_[i] == 'b' ? &batch_ : word_[i] == 't' ? &tokens_ : word_[i] == 'h' ? &heads_ : nullptr;
    bad = place == nullptr || *place >= 0;
    if (!bad) *place = static_cast<int>(i);
  }
  if (bad) refuse_word("layout", operation, word);
}

void LayoutWord::check_type(const ArrayView& view, const char* name) const {
  if (dtype_of(view.type)) return;
  fail(Code::DTYPE, operation_, name, " must be float32, float16 or bfloat16 but got ", type_word(view.type),
       ": convert it first");
}

Layout LayoutWord::of(const ArrayView& view, const char* name) const {
  const auto item = static_cast<std::int64_t>(bits_of(view.type) / 8);
  const std::string argument(name);
  check_type(view, name);
  if (view.ndim != static_cast<int>(word_.size())) {
    fail(Code::SHAPE, operation_, argument, " must have the ", word_.size(), " dimensions of layout \"", word_,
         "\" but got ", view.shape_text());
  }
  const auto last = static_cast<std::size_t>(view.ndim - 1);
  if (view.shape[last] > std::numeric_limits<int>::max()) fail(Code::SHAPE, operation_, "head_dim is too large");
  if (view.strides[last] != item && view.shape[last] > 1 && view.elements() > 0) {
    fail(Code::SHAPE, operation_, "the elements of a head of ", argument, " must lie side by side but got ",
         view.strides[last],
         " bytes from one to the next: pass a "
         "contiguous copy");
  }
  Layout layout;
  layout.head_dim = static_cast<int>(view.shape[last]);
  const auto set = [&](int dimension, std::int64_t& size, std::int64_t& stride) {
    size = 1;
    if (dimension < 0) return;
    const auto at = static_cast<std::size_t>(dimension);
    size = view.shape[at];
    if (size > 1 && view.strides[at] % item != 0) {
      fail(Code::DTYPE, operation_, argument, " must be aligned to its elements but got a stride of ", view.strides[at],
           " bytes: pass a contiguous copy");
    }
    if (size > 1 && view.strides[at] < 0 && view.elements() > 0) {
      fail(Code::SHAPE, operation_, argument, " must not run backwards in memory but got a stride of ",
           view.strides[at] / item, ": pass a contiguous copy");
    }
    stride = size > 1 ? view.strides[at] / item : 0;
  };
  set(batch_, layout.batch, layout.batch_stride);
  set(tokens_, layout.tokens, layout.token_stride);
  set(heads_, layout.heads, layout.head_stride);
  return layout;
}

ConstHeads const_heads(const ArrayView& view, const LayoutWord& word, const char* name) {
  const Layout layout = word.of(view, name);
  return {view.data, *dtype_of(view.type), layout};
}

Heads writable_heads(const ArrayView& view, const LayoutWord& word, const char* name) {
  const Layout layout = word.of(view, name);
  if (view.read_only) {
    fail(Code::VALUE, word.operation(), name,
         " must be writable but got a read-only array: without the underscore, and without out, "
         "the functions return a new one");
  }
  return {view.data, *dtype_of(view.type), layout};
}

// ---- rows ----

namespace {

enum class Doubled : std::uint8_t { no, halves, neighbours };

Doubled doubled_of(const char* operation, PyObject* word) {
  return one_of<Doubled>(operation, word, "doubled",
                         {{"", Doubled::no}, {"halves", Doubled::halves}, {"neighbours", Doubled::neighbours}});
}

float as_float(std::floating_point auto value) { return static_cast<float>(value); }
float as_float(auto value) { return to_float(value); }

// visit(T()) of the type T of the floats.
template <class Visit>
auto with_type_of(const ArrayView& view, const Visit& visit) {
  switch (view.type) {
    case ElementType::f32:
      return visit(float());
    case ElementType::f64:
      return visit(double());
    case ElementType::f16:
      return visit(f16());
    default:
      return visit(bf16());
  }
}

// Calls visit(row) with the first byte of each row, in row-major order.
template <class Visit>
void for_each_row(const ArrayView& view, const Visit& visit) {
  std::array<std::int64_t, 3> sizes{1, 1, 1}, steps{};  // of all dimensions but the last
  const auto rows = static_cast<std::size_t>(view.ndim - 1);
  std::copy_n(view.shape.begin(), rows, sizes.end() - static_cast<std::ptrdiff_t>(rows));
  std::copy_n(view.strides.begin(), rows, steps.end() - static_cast<std::ptrdiff_t>(rows));
  for (std::int64_t b = 0; b < sizes[0]; ++b) {
    for (std::int64_t t = 0; t < sizes[1]; ++t) {
      const char* row = static_cast<const char*>(view.data) + b * steps[0] + t * steps[1];
      for (std::int64_t h = 0; h < sizes[2]; ++h) visit(row + h * steps[2]);
    }
  }
}

std::int64_t columns_of(const ArrayView& view) { return view.shape[static_cast<std::size_t>(view.ndim - 1)]; }
std::int64_t column_step(const ArrayView& view) { return view.strides[static_cast<std::size_t>(view.ndim - 1)]; }

// One column for each pair, rounded to f32.
std::vector<float> copied(const ArrayView& view, Doubled doubled) {
  const std::int64_t pairs = doubled == Doubled::no ? columns_of(view) : columns_of(view) / 2;
  const std::int64_t step = column_step(view) * (doubled == Doubled::neighbours ? 2 : 1);
  std::vector<float> values(pairs == 0 ? 0 : static_cast<std::size_t>(view.elements() / columns_of(view) * pairs));
  float* to = values.data();
  with_type_of(view, [&](auto value) {
    for_each_row(view, [&](const char* row) {
      for (std::int64_t i = 0; i < pairs; ++i, row += step) {
        std::memcpy(&value, row, sizeof value);
        *to++ = as_float(value);
      }
    });
  });
  return values;
}

bool can_be_borrowed(const ArrayView& view) {
  return view.type == ElementType::f32 && view.is_contiguous() &&
         reinterpret_cast<std::uintptr_t>(view.data) % alignof(float) == 0;
}

void check_rows(const ArrayView& cos, const ArrayView& sin, Doubled doubled, const char* operation) {
  if (!is_float(cos.type) || !is_float(sin.type)) {
    const ElementType wrong = is_float(cos.type) ? sin.type : cos.type;
    fail(Code::DTYPE, operation, "cos and sin must hold floats but got ", name(wrong));
  }
  if (cos.ndim != sin.ndim || cos.shape != sin.shape || cos.ndim < 2 || cos.ndim > 4 || columns_of(cos) > (1 << 20)) {
    fail(Code::SHAPE, operation, "cos and sin must both be [tokens, columns], [batch, tokens, columns] or ",
         "[batch, tokens, heads, columns] but got ", cos.shape_text(), " and ", sin.shape_text());
  }
  if (doubled != Doubled::no && columns_of(cos) % 2 != 0) {
    fail(Code::SHAPE, operation, "doubled rows must have two columns for each pair but got ", columns_of(cos),
         " columns");
  }
}

// Whether `count` columns, each so many bytes from the one before, equal bit for bit those that lie `second` from them.
bool repeats(const ArrayView& view, std::int64_t count, std::int64_t second, std::int64_t next) {
  return with_type_of(view, [&]<class T>(T) {
    bool same = true;
    for_each_row(view, [&](const char* row) {
      for (std::int64_t i = 0, most = same ? count : 0; i < most; ++i, row += next) {
        same &= std::memcmp(row, row + second, sizeof(T)) == 0;
      }
    });
    return same;
  });
}

// "halves", "neighbours", "both" or "even" (each row is one number, as at position 0, so nothing can be told): how the
// columns of cos and of sin repeat, bit for bit; "" where they do not.
const char* doubling(const ArrayView& cos, const ArrayView& sin) {
  const std::int64_t columns = columns_of(cos), pairs = columns / 2;
  const auto both = [&](std::int64_t count, std::int64_t second, std::int64_t next) {
    const auto one = [&](const ArrayView& view) {
      return repeats(view, count, second * column_step(view), next * column_step(view));
    };
    return one(cos) && one(sin);
  };
  if (columns % 2 != 0) return "";
  const bool halves = both(pairs, pairs, 1), neighbours = both(pairs, 1, 2);
  if (halves && neighbours) return both(columns - 1, 1, 1) ? "even" : "both";
  return halves ? "halves" : neighbours ? "neighbours" : "";
}

Ref get_doubling(PyObject* operation, PyObject* c, PyObject* s) {
  const ArrayView cos(c, "cos"), sin(s, "sin");
  check_rows(cos, sin, Doubled::no, text_of(operation, "operation").c_str());
  return checked(Py_BuildValue("(sL)", doubling(cos, sin), static_cast<long long>(columns_of(cos))));
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
  read_rows(rows_.get(), operation, borrows);
}

void GivenTable::read_rows(PyObject* rows, const char* operation, bool borrows) {
  const Pairing pairing = parse_pairing(view_of(PyTuple_GetItem(rows, 2), "pairing"));
  const Doubled doubled = doubled_of(operation, PyTuple_GetItem(rows, 3));
  const ArrayView& cos = cos_view_.emplace(PyTuple_GetItem(rows, 0), "cos");
  const ArrayView& sin = sin_view_.emplace(PyTuple_GetItem(rows, 1), "sin");
  check_rows(cos, sin, doubled, operation);
  const std::int64_t columns = columns_of(cos), pairs = doubled == Doubled::no ? columns : columns / 2;
  const int batch = cos.ndim > 2 ? static_cast<int>(cos.shape[0]) : 1;
  const int heads = cos.ndim > 3 ? static_cast<int>(cos.shape[2]) : 1;
  const auto as_table = [&](std::span<const float> c, std::span<const float> s) {
    own_.emplace(Table::borrow(c, s, static_cast<int>(pairs), pairing, batch, heads));
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

std::vector<PyMethodDef> rows_methods() { return {method<get_doubling>("_doubling")}; }

}  // namespace rotary::python
