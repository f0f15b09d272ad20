#include "module.h"

#include <optional>
#include <string>

#include "arguments.h"
#include "arrays.h"
#include "given_table.h"
#include "heads_view.h"
#include "rotary/rotary.h"
#include "threads.h"

namespace rotary::python {

namespace {

// What is said beside the tensors.
struct How {
  // writes: where the result goes is given, and might be the memory of the rows.
  How(const char* operation, bool writes, PyObject* table_object, PyObject* layout_word, PyObject* first_element,
      PyObject* direction_word, PyObject* stores_word)
      : given(table_object, operation, !writes), table(given.table()), layout(layout_word, operation) {
    if (first_element != nullptr) first = integer_of(first_element, "first");
    if (first < 0 || first > (1 << 30))
      fail(Code::SHAPE, operation, "first must be an element of the head but got " + std::to_string(first));
    if (direction_word != nullptr) direction = direction_of(operation, view_of(direction_word, "direction"));
    if (stores_word != nullptr) stores = stores_of(operation, view_of(stores_word, "stores"));
  }
  RotateOptions options(const Work& work) const { return {direction, work.executor(), stores}; }

  GivenTable given;
  const Table& table;
  LayoutWord layout;
  std::int64_t first = 0;
  Direction direction = Direction::forward;
  Stores stores = Stores::automatic;

 private:
  static Direction direction_of(const char* operation, std::string_view word) {
    if (word == "forward") return Direction::forward;
    if (word == "backward") return Direction::backward;
    fail(Code::VALUE, operation, "direction must be \"forward\" or \"backward\" but got \"" + std::string(word) + "\"");
  }
  static Stores stores_of(const char* operation, std::string_view word) {
    if (word == "automatic") return Stores::automatic;
    if (word == "cached") return Stores::cached;
    if (word == "streaming") return Stores::streaming;
    fail(Code::VALUE, operation,
         "stores must be \"automatic\", \"cached\" or \"streaming\" but got \"" + std::string(word) + "\"");
  }
};

// One tensor of a call: what is read, and where the result goes.
class Operand {
 public:
  // out: null for a new array. in_place: out is x.
  Operand(PyObject* x, PyObject* out, bool in_place, const char* name, const How& how)
      : object_(x), name_(name), seen_(x, name), in_place_(in_place || out == x) {
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
    const ConstHeads in = const_heads(seen_, how.layout, name_);
    return {in, in_place_ ? both(how) : writable_heads(*out_, how.layout, "out")};
  }
  Ref result() {
    if (in_place_) return Ref::borrowed(object_);
    return given_ ? std::move(result_) : finished(std::move(result_), seen_.kind);
  }

 private:
  void check_like(const How& how) const {
    if (out_->ndim == seen_.ndim && out_->shape == seen_.shape) return;
    fail(Code::SHAPE, how.layout.operation(),
         "out must have the shape " + seen_.shape_text() + " of " + name_ + " but got " + out_->shape_text());
  }

  PyObject* object_;
  const char* name_;
  ArrayView seen_;
  bool in_place_;
  bool given_ = false;
  Ref result_;
  std::optional<ArrayView> out_;
};

// Where the block does not begin the head, the elements before it are copied after the checks of the rest.
void check_apart(const InOut& pair, std::int64_t first, const char* operation) {
  if (first == 0 || pair.in.data == pair.out.data) return;
  const auto end = [](const void* data, DType dtype, const Layout& layout) {
    const std::int64_t last = (layout.batch - 1) * layout.batch_stride + (layout.tokens - 1) * layout.token_stride +
                              (layout.heads - 1) * layout.head_stride + layout.head_dim;
    return static_cast<const std::byte*>(data) + last * static_cast<std::int64_t>(size_of(dtype));
  };
  const std::byte* in = static_cast<const std::byte*>(pair.in.data);
  const std::byte* out = static_cast<const std::byte*>(pair.out.data);
  if (in < end(pair.out.data, pair.out.dtype, pair.out.layout) &&
      out < end(pair.in.data, pair.in.dtype, pair.in.layout)) {
    fail(Code::ALIAS, operation, "x and out must be the same array or apart but got arrays that overlap");
  }
}

void rotate_one(const Operand& x, const How& how) {
  const Work work(x.bytes(), heads_are_large, x.kind());
  if (x.in_place()) {
    const Heads heads = from_first(x.both(how), how.first);
    const Unlocked unlocked(work.large());
    return rotate(heads, how.table, how.options(work));
  }
  const InOut pair = x.apart(how);
  check_apart(pair, how.first, how.layout.operation());
  const Unlocked unlocked(work.large());
  rotate(from_first(pair.in, how.first), from_first(pair.out, how.first), how.table, how.options(work));
  copy_before(pair.in, pair.out, how.first);
}

void rotate_two(const Operand& q, const Operand& k, const How& how) {
  const Work work(q.bytes() + k.bytes(), heads_are_large, q.kind());
  if (q.in_place() && k.in_place()) {
    const Heads qs = from_first(q.both(how), how.first), ks = from_first(k.both(how), how.first);
    const Unlocked unlocked(work.large());
    return rotate_qk(qs, ks, how.table, how.options(work));
  }
  const InOut qs = q.apart(how), ks = k.apart(how);
  check_apart(qs, how.first, how.layout.operation());
  check_apart(ks, how.first, how.layout.operation());
  const Unlocked unlocked(work.large());
  rotate_qk({from_first(qs.in, how.first), from_first(qs.out, how.first)},
            {from_first(ks.in, how.first), from_first(ks.out, how.first)}, how.table, how.options(work));
  copy_before(qs.in, qs.out, how.first);
  copy_before(ks.in, ks.out, how.first);
}

// ---- the functions ----

PyObject* py_rotate(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words) {
  static const Signature<7> signature{"rotate", 7, 2, {"x", "table", "layout", "out", "first", "direction", "stores"}};
  return guarded([&]() -> PyObject* {
    const auto [x, table, layout, out, first, direction, stores] = signature.read(arguments, given, words);
    const How how("rotate", out != nullptr, table, layout, first, direction, stores);
    Operand operand(x, out, false, "x", how);
    rotate_one(operand, how);
    return operand.result().release();
  });
}

PyObject* py_rotate_in_place(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words) {
  static const Signature<5> signature{"rotate_", 5, 2, {"x", "table", "layout", "first", "direction"}};
  return guarded([&]() -> PyObject* {
    const auto [x, table, layout, first, direction] = signature.read(arguments, given, words);
    const How how("rotate_", true, table, layout, first, direction, nullptr);
    Operand operand(x, nullptr, true, "x", how);
    rotate_one(operand, how);
    return operand.result().release();
  });
}

PyObject* py_rotate_backward(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words) {
  static const Signature<6> signature{"rotate_backward", 6, 2, {"grad", "table", "layout", "out", "first", "stores"}};
  return guarded([&]() -> PyObject* {
    const auto [grad, table, layout, out, first, stores] = signature.read(arguments, given, words);
    How how("rotate_backward", out != nullptr, table, layout, first, nullptr, stores);
    how.direction = Direction::backward;
    Operand operand(grad, out, false, "grad", how);
    rotate_one(operand, how);
    return operand.result().release();
  });
}

std::pair<PyObject*, PyObject*> two_of(PyObject* out) {
  if (out == nullptr) return {nullptr, nullptr};
  if (PyTuple_Check(out) == 0 || PyTuple_Size(out) != 2) {
    raise_type_error("[rotate_qk] out must be a tuple (q_out, k_out) but got " + type_name(out));
  }
  return {PyTuple_GetItem(out, 0), PyTuple_GetItem(out, 1)};
}

PyObject* pair_of(Operand& q, Operand& k) {
  Ref pair = checked(PyTuple_New(2));
  checked(PyTuple_SetItem(pair.get(), 0, q.result().release()));
  checked(PyTuple_SetItem(pair.get(), 1, k.result().release()));
  return pair.release();
}

PyObject* py_rotate_qk(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words) {
  static const Signature<8> signature{
      "rotate_qk", 8, 3, {"q", "k", "table", "layout", "out", "first", "direction", "stores"}};
  return guarded([&]() -> PyObject* {
    const auto [q, k, table, layout, out, first, direction, stores] = signature.read(arguments, given, words);
    const How how("rotate_qk", out != nullptr, table, layout, first, direction, stores);
    const auto [q_out, k_out] = two_of(out);
    Operand query(q, q_out, false, "q", how), key(k, k_out, false, "k", how);
    rotate_two(query, key, how);
    return pair_of(query, key);
  });
}

PyObject* py_rotate_qk_in_place(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words) {
  static const Signature<6> signature{"rotate_qk_", 6, 3, {"q", "k", "table", "layout", "first", "direction"}};
  return guarded([&]() -> PyObject* {
    const auto [q, k, table, layout, first, direction] = signature.read(arguments, given, words);
    const How how("rotate_qk_", true, table, layout, first, direction, nullptr);
    Operand query(q, nullptr, true, "q", how), key(k, nullptr, true, "k", how);
    rotate_two(query, key, how);
    return pair_of(query, key);
  });
}

void rotate_packed(const Operand& qkv, PyObject* kv_heads, const How& how) {
  const std::int64_t count = integer_of(kv_heads, "kv_heads");
  const Work work(qkv.bytes(), heads_are_large, qkv.kind());
  if (qkv.in_place()) {
    const Heads heads = from_first(qkv.both(how), how.first);
    const Unlocked unlocked(work.large());
    return rotate_qkv(heads, count, how.table, how.options(work));
  }
  const InOut pair = qkv.apart(how);
  check_apart(pair, how.first, how.layout.operation());
  const Unlocked unlocked(work.large());
  rotate_qkv(from_first(pair.in, how.first), from_first(pair.out, how.first), count, how.table, how.options(work));
  copy_before(pair.in, pair.out, how.first);
}

PyObject* py_rotate_qkv(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words) {
  static const Signature<8> signature{
      "rotate_qkv", 8, 3, {"qkv", "table", "kv_heads", "layout", "out", "first", "direction", "stores"}};
  return guarded([&]() -> PyObject* {
    const auto [qkv, table, kv_heads, layout, out, first, direction, stores] = signature.read(arguments, given, words);
    const How how("rotate_qkv", out != nullptr, table, layout, first, direction, stores);
    Operand operand(qkv, out, false, "qkv", how);
    rotate_packed(operand, kv_heads, how);
    return operand.result().release();
  });
}

PyObject* py_rotate_qkv_in_place(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words) {
  static const Signature<6> signature{
      "rotate_qkv_", 6, 3, {"qkv", "table", "kv_heads", "layout", "first", "direction"}};
  return guarded([&]() -> PyObject* {
    const auto [qkv, table, kv_heads, layout, first, direction] = signature.read(arguments, given, words);
    const How how("rotate_qkv_", true, table, layout, first, direction, nullptr);
    Operand operand(qkv, nullptr, true, "qkv", how);
    rotate_packed(operand, kv_heads, how);
    return operand.result().release();
  });
}

}  // namespace

std::vector<PyMethodDef> rotate_methods() {
  return {fast("rotate", py_rotate, nullptr),
          fast("rotate_", py_rotate_in_place, nullptr),
          fast("rotate_backward", py_rotate_backward, nullptr),
          fast("rotate_qk", py_rotate_qk, nullptr),
          fast("rotate_qk_", py_rotate_qk_in_place, nullptr),
          fast("rotate_qkv", py_rotate_qkv, nullptr),
          fast("rotate_qkv_", py_rotate_qkv_in_place, nullptr)};
}

}  // namespace rotary::python
