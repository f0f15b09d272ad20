// An array and a layout word, as the heads of the library.
#pragma once

#include <string_view>

#include "arrays.h"
#include "rotary/heads.h"

namespace rotary::python {

// "bthd", "bhtd", "tbhd", "thd", "htd", "td", "hd", ...: b batch, t tokens, h heads in any order and each at most once,
// then d head_dim. What is left out has one.
class LayoutWord {
 public:
  LayoutWord(PyObject* word, const char* operation);  // throws SHAPE, also for None

  Layout of(const ArrayView& view, const char* name) const;        // throws SHAPE, DTYPE
  void check_type(const ArrayView& view, const char* name) const;  // throws DTYPE
  const char* operation() const noexcept { return operation_; }

 private:
  const char* operation_;
  std::string_view word_;
  int batch_ = -1, tokens_ = -1, heads_ = -1;
};

ConstHeads const_heads(const ArrayView& view, const LayoutWord& word, const char* name);
Heads writable_heads(const ArrayView& view, const LayoutWord& word, const char* name);  // throws VALUE: read-only

// The elements of a head from `first` on.
ConstHeads from_first(const ConstHeads& x, std::int64_t first);
Heads from_first(const Heads& x, std::int64_t first);
// Copies the elements before `first`, which rotating out of place leaves to the caller.
void copy_before(const ConstHeads& x, const Heads& out, std::int64_t first);

}  // namespace rotary::python
