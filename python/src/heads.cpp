#include "given.h"

#include <limits>
#include <string>

namespace rotary::python {

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

}  // namespace rotary::python
