// The functions that rotate, which rotary/_rotating.py and rotary/_torch call. operation is the name of the caller's
// function for errors. out is None for a new array, and x itself to rotate in place.

#include <limits>

#include "given.h"
#include "module.h"
#include "rotary/gpu.h"
#include "rotary/query_scale.h"

namespace rotary::python {

namespace {

// The word for the dimensions of an array, "bthd", "bhtd", "thd", "td", ...: b batch, t tokens and h heads in any
// order, each at most once, then d head_dim. A missing dimension has size 1.
class LayoutWord {
 public:
  // Throws SHAPE, also for None.
  LayoutWord(PyObject* word, const char* operation) : operation_(operation) {
    if (word != Py_None) word_ = view_of(word, "layout");
    bool bad = word_.size() < 2 || word_.size() > 4 || word_.back() != 'd';
    for (std::size_t i = 0; !bad && i + 1 < word_.size(); ++i) {
      int* place = word_[i] == 'b' ? &batch_ : word_[i] == 't' ? &tokens_ : word_[i] == 'h' ? &heads_ : nullptr;
      bad = place == nullptr || *place >= 0;
      if (!bad) *place = static_cast<int>(i);
    }
    if (bad) refuse_word("layout", operation, word);
  }

  // Throws DTYPE.
  void check_type(const ArrayView& view, const char* name) const {
    if (dtype_of(view.type)) return;
    fail(Code::DTYPE, operation_, name, " must be float32, float16 or bfloat16 but got ", type_word(view.type),
         ": convert it first");
  }
  // Throw SHAPE, DTYPE; VALUE for a read-only array that must be written to.
  ConstHeads heads(const ArrayView& view, const char* name) const {
    const Layout layout = layout_of(view, name);
    return {view.data, *dtype_of(view.type), layout};
  }
  Heads writable_heads(const ArrayView& view, const char* name) const {
    const Layout layout = layout_of(view, name);
    if (view.read_only) {
      fail(Code::VALUE, operation_, name, " must be writable but got a read-only array: without the underscore, and ",
           "without out, the functions return a new one");
    }
    return {view.data, *dtype_of(view.type), layout};
  }

 private:
  Layout layout_of(const ArrayView& view, const char* name) const {
    check_type(view, name);
    if (view.ndim != static_cast<int>(word_.size())) {
      fail(Code::SHAPE, operation_, name, " must have the ", word_.size(), " dimensions of layout \"", word_,
           "\" but got ", view.shape_text());
    }
    const auto item = static_cast<std::int64_t>(bits_of(view.type) / 8);
    if (view.columns() > std::numeric_limits<int>::max()) fail(Code::SHAPE, operation_, "head_dim is too large");
    if (view.column_step() != item && view.columns() > 1 && view.elements() > 0) {
      fail(Code::SHAPE, operation_, "the elements of a head of ", name, " must lie side by side but got ",
           view.column_step(), " bytes from one to the next: pass a contiguous copy");
    }
    Layout layout;
    layout.head_dim = static_cast<int>(view.columns());
    const auto set = [&](int dimension, std::int64_t& size, std::int64_t& stride) {
      size = 1;
      if (dimension < 0) return;
      const auto at = static_cast<std::size_t>(dimension);
      size = view.shape[at];
      if (size < 2) return;
      if (view.strides[at] % item != 0) {
        fail(Code::DTYPE, operation_, name, " must be aligned to its elements but got a stride of ", view.strides[at],
             " bytes: pass a contiguous copy");
      }
      stride = view.strides[at] / item;
      if (stride < 0 && view.elements() > 0) {
        fail(Code::SHAPE, operation_, name, " must not run backwards in memory but got a stride of ", stride,
             ": pass a contiguous copy");
      }
    };
    set(batch_, layout.batch, layout.batch_stride);
    set(tokens_, layout.tokens, layout.token_stride);
    set(heads_, layout.heads, layout.head_stride);
    return layout;
  }

  const char* operation_;
  std::string_view word_;
  int batch_ = -1, tokens_ = -1, heads_ = -1;
};

// ---- on the CPU ----

// The arguments of a rotation beside its tensors.
struct How {
  // out: None, or the array of the result, which may share the memory of the rows.
  How(PyObject* word, PyObject* out, PyObject* table_object, PyObject* layout_word, PyObject* first_element,
      PyObject* direction_word, PyObject* stores_word)
      : operation(view_of(word, "operation").data()),  // a str, which ends with a zero
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
    return {.direction = direction, .stores = stores, .first = static_cast<int>(first), .executor = &work.executor()};
  }

  const char* operation;
  GivenTable given;
  const Table& table;
  LayoutWord layout;
  std::int64_t first;
  Direction direction;
  Stores stores;
};

// One tensor of a call: the array that is read, and the array of the result.
class Operand {
 public:
  Operand(PyObject* x, PyObject* out, const char* name, const How& how) : name_(name), seen_(x, name) {
    how.layout.check_type(seen_, name);
    const bool given = out != Py_None;
    result_ = given ? Ref::borrowed(out) : empty_like(x, seen_);
    if (out == x) return;
    out_.emplace(result_.get(), given ? "out" : name, given);
    if (out_->ndim == seen_.ndim && out_->shape == seen_.shape) return;
    fail(Code::SHAPE, how.operation, "out must have the shape ", seen_.shape_text(), " of ", name, " but got ",
         out_->shape_text());
  }

  std::int64_t bytes() const noexcept { return seen_.bytes(); }
  Kind kind() const noexcept { return seen_.kind; }
  bool in_place() const noexcept { return !out_; }
  InOut pair(const How& how) const {
    if (out_) return {how.layout.heads(seen_, name_), how.layout.writable_heads(*out_, "out")};
    const Heads both = how.layout.writable_heads(seen_, name_);
    return {both, both};
  }
  Ref result() { return finished(std::move(result_), seen_.kind); }

 private:
  const char* name_;
  ArrayView seen_;
  Ref result_;
  std::optional<ArrayView> out_;
};

// kv_heads is read in the operations rotate_qkv and rotate_qkv_ only, whose tensor is packed.
Ref rotate_one(PyObject* word, PyObject* x, PyObject* table, PyObject* layout, PyObject* out, PyObject* first,
               PyObject* direction, PyObject* stores, PyObject* kv_heads) {
  const How how(word, out, table, layout, first, direction, stores);
  const std::string_view operation = how.operation;
  const bool packed = operation.starts_with("rotate_qkv");
  const std::int64_t of_kv = packed ? integer_of(kv_heads, "kv_heads") : 0;
  Operand operand(x, out, packed ? "qkv" : operation == "rotate_backward" ? "grad" : "x", how);
  const Work work(operand.bytes(), heads_are_large, operand.kind());
  const InOut pair = operand.pair(how);
  const auto turn = [&](const auto&... heads) {
    const Unlocked unlocked(work.large());
    packed ? rotate_qkv(heads..., of_kv, how.table, how.options(work)) : rotate(heads..., how.table, how.options(work));
  };
  operand.in_place() ? turn(pair.out) : turn(pair.in, pair.out);
  return operand.result();
}

// The factors of q's tokens. given: None, or floats [tokens] or [batch, tokens]. They are copied, because an array that
// is written to may share their memory.
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
  for_each_element(view, [&](auto value) { factors.push_back(static_cast<float>(real(value))); });
  return factors;
}

Ref rotate_two(PyObject* word, PyObject* q, PyObject* k, PyObject* table, PyObject* layout, PyObject* q_out,
               PyObject* k_out, PyObject* first, PyObject* direction, PyObject* stores, PyObject* query_scale) {
  const How how(word, q_out, table, layout, first, direction, stores);
  Operand query(q, q_out, "q", how), key(k, k_out, "k", how);
  if (query.kind() != key.kind()) {
    raise_type_error("[", how.operation, "] q and k must be arrays of one library but got ", type_name(q), " and ",
                     type_name(k));
  }
  const Work work(query.bytes() + key.bytes(), heads_are_large, query.kind());
  const InOut qs = query.pair(how), ks = key.pair(how);
  const std::vector<float> factors = factors_of(how, query_scale, qs.in.layout);
  const auto turn = [&](const auto&... heads) {
    const Unlocked unlocked(work.large());
    rotate_qk(heads..., how.table, how.options(work), factors);
  };
  query.in_place() && key.in_place() ? turn(qs.out, ks.out) : turn(qs, ks);
  const Ref first_result = query.result(), second_result = key.result();
  return checked(PyTuple_Pack(2, first_result.get(), second_result.get()));
}

// ---- on a CUDA device ----

constexpr const char* gpu_operation = "rotate";

Ref gpu_built() { return Ref(PyBool_FromLong(gpu::built() ? 1 : 0)); }

// A view of rows in the device's memory, without a copy. The caller has checked them.
gpu::Table table_of(const ArrayView& cos, const ArrayView& sin, PyObject* pairing) {
  const auto rank = static_cast<std::size_t>(cos.ndim);
  const int batch = rank > 2 ? static_cast<int>(cos.shape[0]) : 1;
  const int heads = rank > 3 ? static_cast<int>(cos.shape[2]) : 1;
  return gpu::Table::borrow(static_cast<const float*>(cos.data), static_cast<const float*>(sin.data),
                            static_cast<int>(cos.shape[rank - 1]), parse_pairing(view_of(pairing, "pairing")),
                            cos.shape[rank > 3 ? 1 : rank - 2], batch, heads);
}

// One tensor of a call and the tensor of its result, both from the element `first` of each head on.
struct DeviceOperand {
  DeviceOperand(PyObject* in, PyObject* out, const char* name, const LayoutWord& layout, int first)
      : from(in, name, false, Memory::cuda),
        to(out, "out", false, Memory::cuda),
        pair{layout.heads(from, name), layout.writable_heads(to, "out")} {
    const int head_dim = pair.in.layout.head_dim;
    pair = {slice(pair.in, first, head_dim - first), slice(pair.out, first, head_dim - first)};
  }
  ArrayView from, to;
  InOut pair;
};

// k and k_out may be None. cos and sin are f32 and contiguous, with one column for each pair. stream is a cudaStream_t
// of the current device as an int. Elements of a head before `first` are not written.
Ref gpu_rotate(PyObject* q, PyObject* k, PyObject* q_out, PyObject* k_out, PyObject* cos, PyObject* sin,
               PyObject* pairing, PyObject* word, PyObject* first_element, PyObject* backward, PyObject* stream) {
  const LayoutWord layout(word, gpu_operation);
  const int first = int_of(first_element, "first");
  const ArrayView c(cos, "cos", false, Memory::cuda), s(sin, "sin", false, Memory::cuda);
  const gpu::Table table = table_of(c, s, pairing);
  const gpu::RotateOptions options(
      is_true(backward) ? Direction::backward : Direction::forward,
      reinterpret_cast<gpu::Stream>(static_cast<std::uintptr_t>(integer_of(stream, "stream"))));
  const DeviceOperand query(q, q_out, "q", layout, first);
  if (k == Py_None) {
    gpu::rotate(query.pair.in, query.pair.out, table, options);
  } else {
    const DeviceOperand key(k, k_out, "k", layout, first);
    gpu::rotate_qk(query.pair, key.pair, table, options);
  }
  return none();
}

}  // namespace

std::vector<PyMethodDef> rotate_methods() {
  return {method<rotate_one>("rotate"), method<rotate_two>("rotate_qk"), method<gpu_built>("_gpu_built"),
          method<gpu_rotate>("_gpu_rotate")};
}

}  // namespace rotary::python
