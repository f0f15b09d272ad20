// What a rotation reads: a rotary.Table, or the rows of somebody's arrays.
#pragma once

#include <optional>
#include <vector>

#include "arrays.h"
#include "rotary/table.h"

namespace rotary::python {

// object: a rotary.Table, a tuple (cos, sin, pairing, doubled), or an object whose attribute _rows is such a tuple.
// cos and sin: floats [tokens, columns] or [batch, tokens, columns] of any strides; doubled: "" (one column for each
// pair), "halves" (columns i and i + pairs are one) or "neighbours" (2i and 2i + 1), of which the first is read.
// Rows in f32, one after the other, are read where they lie if `borrows`, else copied: an array that is written to may
// be their memory. Throws TypeError for anything else, SHAPE, DTYPE, PAIRING, VALUE.
class GivenTable {
 public:
  GivenTable(PyObject* object, const char* operation, bool borrows);
  GivenTable(const GivenTable&) = delete;
  GivenTable& operator=(const GivenTable&) = delete;
  const Table& table() const noexcept { return *table_; }

 private:
  void read_rows(PyObject* rows, const char* operation, bool borrows);

  const Table* table_ = nullptr;
  Ref rows_;
  std::optional<ArrayView> cos_view_, sin_view_;
  std::vector<float> cos_, sin_;
  std::optional<Table> own_;
};

// _doubling(operation, cos, sin), _single(operation, cos, sin, doubled): _core.pyi.
std::vector<PyMethodDef> given_table_methods();

}  // namespace rotary::python
