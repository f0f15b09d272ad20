// The functions that rotate: rotary/_rotating.py and rotary/_torch call them.

#include "given.h"
#include "module.h"
#include "rotary/query_scale.h"

namespace rotary::python {

namespace {

// What is said beside the tensors.
struct How {
  // out: None, or where the result goes, which might be the memory of the rows.
  How(PyObject* word, PyObject* out, PyObject* table_object, PyObject* layout_word, PyObject* first_element,
      PyObject* direction_word, PyObject* stores_word)
      : operation(view_of(word, "operation").data()),  // of a str, which ends with a zero
        given(table_object, operation, out == Py_None),
        table(given.table()),
        layout(layout_word, operation),
        first(integer_of(first_element, "first")),
        direction(one_of<Direction>(operation, direction_word, "direction",
                                    {{"forward", Direction::forward}, {"backward", Direction::backward}})),
        stores(one_of<Stores>(
            operation, stores_word, "stores",
            {{"automatic", Stores::automatic}, {"cached", Stores::cached}, {"streaming", Stores::streaming}})) {
    if (first < 0 || first > (1 << 30))
      fail(Code::SHAPE, operation, "first must be an element of the head but got ", first);
  }
  RotateOptions options(const Work& work) const {
    return {direction, work.executor(), stores, static_cast<int>(first)};
  }

  const char* operation;
  GivenTable given;
  const Table& table;
  LayoutWord layout;
  std::int64_t first;
  Direction direction;
  Stores stores;
};

// One tensor of a call: what is read, and where the result goes.
class Operand {
 public:
  // out: null for a new array; x itself: in place.
  Operand(PyObject* x, PyObject* out, const char* name, const How& how)
      : object_(x), name_(name), seen_(x, name), in_place_(out == x) {
    how.layout.check_type(seen_, name);
    if (in_place_) return;
    result_ = out == nullptr ? empty_like(x, seen_) : Ref::borrowed(out);
    given_ = out != nullptr;
    out_.emplace(result_.get(), given_ ? "out" : name, given_);
    if (given_) check_like(how);
  }

  bool in_place() const noexcept { return in_place_; }
  std::int64_t bytes() const noexcept { return seen_.bytes(); }
  Kind kind() const noexcept { return seen_.kind; }
  Heads both(const How& how) const { return writable_heads(seen_, how.layout, name_); }
  InOut apart(const How& how) const {
    return {const_heads(seen_, how.layout, name_),
            writable_heads(in_place_ ? seen_ : *out_, how.layout, in_place_ ? name_ : "out")};
  }
  Ref result() {
    if (in_place_) return Ref::borrowed(object_);
    return given_ ? std::move(result_) : finished(std::move(result_), seen_.kind);
  }

 private:
  void check_like(const How& how) const {
    if (out_->ndim == seen_.ndim && out_->shape == seen_.shape) return;
    fail(Code::SHAPE, how.layout.operation(), "out must have the shape ", seen_.shape_text(), " of ", name_,
         " but got ", out_->shape_text());
  }

  PyObject* object_;
  const char* name_;
  ArrayView seen_;
  bool in_place_;
  bool given_ = false;
  Ref result_;
  std::optional<ArrayView> out_;
};

// (operation, x, table, layout, out, first, direction, stores, kv_heads); out may be x, or None; kv_heads is
// read of the packed tensor of the operations rotate_qkv and rotate_qkv_.
Ref rotate_one(PyObject* word, PyObject* x, PyObject* table, PyObject* layout, PyObject* out, PyObject* first,
               PyObject* direction, PyObject* stores, PyObject* kv_heads) {
  const How how(word, out, table, layout, first, direction, stores);
  const std::string_view operation = how.operation;
  const bool packed = operation.starts_with("rotate_qkv");
  const std::int64_t of_kv = packed ? integer_of(kv_heads, "kv_heads") : 0;
  const char* name = packed ? "qkv" : operation == "rotate_backward" ? "grad" : "x";
  Operand operand(x, out == Py_None ? nullptr : out, name, how);
  const Work work(operand.bytes(), heads_are_large, operand.kind());
  const auto turn = [&](const auto&... heads) {
    const Unlocked unlocked(work.large());
    packed ? rotate_qkv(heads..., of_kv, how.table, how.options(work)) : rotate(heads..., how.table, how.options(work));
  };
  if (operand.in_place()) {
    turn(operand.both(how));
  } else {
    const InOut pair = operand.apart(how);
    turn(pair.in, pair.out);
  }
  return operand.result();
}

// given: None, or floats [tokens] or [batch, tokens] of q. A copy: an array that is written to may be their memory.
std::vector<float> factors_of(const How& how, PyObject* given, const Layout& q) {
  std::vector<float> factors;
  if (given == Py_None) return factors;
  const ArrayView view(given, "query_scale");
  if (!is_float(view.type))
    fail(Code::DTYPE, how.operation, "query_scale must be of floats but got ", type_word(view.type));
  const bool of_rows = view.ndim == 2 && view.shape[0] == q.batch && view.shape[1] == q.tokens;
  if (!of_rows && !(view.ndim == 1 && view.shape[0] == q.tokens)) {
    fail(Code::SHAPE, how.operation, "query_scale must have a factor for each token of q, [tokens] or ",
         "[batch, tokens] of ", q.batch, " x ", q.tokens, ", but got ", view.shape_text());
  }
  for_each_offset(view, [&](const char* at) { factors.push_back(static_cast<float>(real_at(at, view.type))); });
  return factors;
}

// The same of q and k: (operation, q, k, table, layout, q_out, k_out, first, direction, stores, query_scale).
Ref rotate_two(PyObject* word, PyObject* q, PyObject* k, PyObject* table, PyObject* layout, PyObject* q_out,
               PyObject* k_out, PyObject* first, PyObject* direction, PyObject* stores, PyObject* query_scale) {
  const How how(word, q_out, table, layout, first, direction, stores);
  const bool writes = q_out != Py_None;
  Operand query(q, writes ? q_out : nullptr, "q", how), key(k, writes ? k_out : nullptr, "k", how);
  if (query.kind() != key.kind()) {
    raise_type_error("[", how.operation, "] q and k must be arrays of one library but got ", type_name(q), " and ",
                     type_name(k));
  }
  const Work work(query.bytes() + key.bytes(), heads_are_large, query.kind());
  if (query.in_place() && key.in_place()) {
    const Heads qs = query.both(how), ks = key.both(how);
    const std::vector<float> factors = factors_of(how, query_scale, qs.layout);
    const Unlocked unlocked(work.large());
    rotate_qk(qs, ks, how.table, how.options(work), factors);
  } else {
    const InOut qs = query.apart(how), ks = key.apart(how);
    const std::vector<float> factors = factors_of(how, query_scale, qs.in.layout);
    const Unlocked unlocked(work.large());
    rotate_qk(qs, ks, how.table, how.options(work), factors);
  }
  const Ref first_result = query.result(), second_result = key.result();
  return checked(PyTuple_Pack(2, first_result.get(), second_result.get()));
}

}  // namespace

std::vector<PyMethodDef> rotate_methods() { return {method<rotate_one>("rotate"), method<rotate_two>("rotate_qk")}; }

}  // namespace rotary::python
