// The functions that rotate, which rotary/_rotating.py and rotary/_torch call. operation is the name of the caller's
// function for errors. out is None for a new array, and x itself to rotate in place.

#include <limits>

#include "module.h"
#include "rotary/query_scale.h"

namespace rotary::python {

namespace {

// The word for the dimensions of an array, "bthd", "bhtd", "thd", "td", ...: b batch, t or s tokens and h heads in
// any order, each at most once, then d head_dim. A missing dimension has size 1.
class LayoutWord {
 public:
  // Throws SHAPE, also for None.
  LayoutWord(PyObject* word, const char* operation) : operation_(operation) {
    if (word != Py_None) word_ = view_of(word, "layout");
    bool bad = word_.size() < 2 || word_.size() > 4 || word_.back() != 'd';
    for (std::size_t i = 0; !bad && i + 1 < word_.size(); ++i) {
      const char letter = word_[i];
      int* place = letter == 'b'                    ? &batch_
                   : letter == 't' || letter == 's' ? &tokens_
                   : letter == 'h'                  ? &heads_
                                                    : nullptr;
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
    const int extra = view.ndim - static_cast<int>(word_.size());  // a batch of several dimensions
    if (extra < 0 || (extra > 0 && batch_ != 0)) {
      fail(Code::SHAPE, operation_, name, " must have the ", word_.size(), " dimensions of layout \"", word_,
           "\" but got ", view.shape_text(), ": only a batch in front may have several");
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
    const auto place = [extra](int letter) { return letter < 0 ? -1 : letter + extra; };
    set(place(batch_), layout.batch, layout.batch_stride);
    for (int d = extra - 1; d >= 0; --d) {
      std::int64_t size = 1, stride = 0;
      set(d, size, stride);
      if (size > 1 && layout.batch > 1 && stride != layout.batch_stride * layout.batch) {
        fail(Code::SHAPE, operation_, "the dimensions of the batch of ", name, " must follow each other in memory but ",
             "have strides of ", stride, " and ", layout.batch_stride, " elements: pass a contiguous copy");
      }
      if (size > 1 && layout.batch == 1) layout.batch_stride = stride;
      layout.batch *= size;
    }
    set(place(tokens_), layout.tokens, layout.token_stride);
    set(place(heads_), layout.heads, layout.head_stride);
    return layout;
  }

  const char* operation_;
  std::string_view word_;
  int batch_ = -1, tokens_ = -1, heads_ = -1;
};

// ---- tensors of torch whose memory is enough ----

// The functions and sets of rotary._torch.plain by which a tensor is known to be plain, and a thread to be without
// modes.
class Torch {
 public:
  static const Torch& get() {
    static const Torch* one = new Torch;  // never destroyed: Python may have ended
    return *one;
  }

  // Whether no mode, transform, tracer, profiler or dual number must see a call.
  bool is_quiet() const {
    return holds(no_modes_, number(call(included_).get())) && integer(call(function_modes_)) == 0 &&
           integer(checked(PyObject_GetAttr(forward_ad_.get(), level_.get()))) < 0 &&
           PyObject_IsTrue(call(profiled_).get()) == 0;
  }
  // Whether x is a plain tensor in the CPU's memory whose gradient is not recorded.
  bool is_plain(PyObject* x, bool records) const {
    if (!is_type(x)) return false;
    const Ref keys = checked(PyObject_CallFunctionObjArgs(keys_.get(), x, nullptr));
    if (!holds(plain_, number(keys.get()))) return false;
    return !records || PyObject_IsTrue(checked(PyObject_GetAttr(x, requires_grad_.get())).get()) == 0;
  }
  bool is_type(PyObject* x) const {
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(x));
    return type == tensor_.get() || type == parameter_.get();
  }
  bool records() const { return PyObject_IsTrue(call(grad_enabled_).get()) == 1; }
  // Tells autograd, which may have saved the tensor for its backward, that it was written to.
  void tell_of_write(PyObject* x) const { checked(PyObject_CallFunctionObjArgs(written_.get(), x, nullptr)); }

 private:
  Torch() {
    const Ref make = module_function("rotary._torch.plain", "for_core");
    const Ref facts = checked(PyObject_CallObject(make.get(), nullptr));
    Py_ssize_t at = 0;
    for (Ref* each : {&tensor_, &parameter_, &included_, &number_, &no_modes_, &function_modes_, &forward_ad_,
                      &profiled_, &keys_, &plain_, &grad_enabled_, &written_}) {
      *each = Ref::borrowed(PyTuple_GetItem(facts.get(), at++));
    }
    level_ = new_text("_current_level");
    requires_grad_ = new_text("requires_grad");
  }
  static Ref call(const Ref& function) { return checked(PyObject_CallObject(function.get(), nullptr)); }
  static long integer(const Ref& number) { return PyLong_AsLong(number.get()); }
  Ref number(PyObject* keys) const { return checked(PyObject_CallFunctionObjArgs(number_.get(), keys, nullptr)); }
  static bool holds(const Ref& set, const Ref& one) { return PySet_Contains(set.get(), one.get()) == 1; }

  Ref tensor_, parameter_, included_, number_, no_modes_, function_modes_, forward_ad_, profiled_, keys_, plain_,
      grad_enabled_, written_, level_, requires_grad_;
};

// The two functions give rotary._torch.plain the same answers.
Ref get_is_quiet() { return checked(PyBool_FromLong(Torch::get().is_quiet() ? 1 : 0)); }
Ref get_is_plain(PyObject* x) { return checked(PyBool_FromLong(Torch::get().is_plain(x, false) ? 1 : 0)); }

bool is_tensor(PyObject* x) { return ArrayView::kind_of(x) == Kind::torch; }

// Whether a call with these arguments, of which the first is a tensor of torch and others may be None, may read and
// write their memory. The ops give the table as a tuple: they have seen to it.
bool goes_straight(PyObject* table, std::initializer_list<PyObject*> arguments) {
  if (PyTuple_Check(table) != 0) return true;
  const Torch& torch = Torch::get();
  if (!torch.is_quiet()) return false;
  const bool records = torch.records();
  for (PyObject* x : arguments) {
    if (is_tensor(x) && !torch.is_plain(x, records)) return false;
  }
  if (table_or_null(table) != nullptr) return true;
  static PyObject* const rows_word = PyUnicode_InternFromString("_rows");
  const Ref rows = attribute_or_null(table, rows_word);
  if (!rows || PyTuple_Check(rows.get()) == 0) return true;  // no table, which is an error
  for (Py_ssize_t i = 0; i < 2; ++i) {
    if (!torch.is_plain(PyTuple_GetItem(rows.get(), i), records)) return false;
  }
  return true;
}

// ---- on the CPU ----

// The arguments of a rotation beside its tensors.
struct How {
  // out: None, or the array of the result, which may share the memory of the rows.
  How(PyObject* word, PyObject* out, PyObject* table_object, PyObject* layout_word, PyObject* first_element,
      PyObject* direction_word)
      : operation(view_of(word, "operation").data()),  // a str, which ends with a zero
        given(table_object, operation, out == Py_None),
        table(given.table()),
        layout(layout_word, operation),
        first(integer_of(first_element, "first")),
        direction(one_of<Direction>(operation, direction_word, "direction",
                                    {{"forward", Direction::forward}, {"backward", Direction::backward}})) {
    if (first < 0 || first > (1 << 30))
      fail(Code::SHAPE, operation, "first must be an element of the head but got ", first);
  }
  RotateOptions options(const Work& work) const {
    return {.direction = direction, .first = static_cast<int>(first), .executor = &work.executor()};
  }

  const char* operation;
  GivenTable given;
  const Table& table;
  LayoutWord layout;
  std::int64_t first;
  Direction direction;
};

// One tensor of a call: the array that is read, and the array of the result.
class Operand {
 public:
  Operand(PyObject* x, PyObject* out, const char* name, const How& how) : name_(name), seen_(x, name, false) {
    if (must_go_back()) return;
    how.layout.check_type(seen_, name);
    const bool given = out != Py_None;
    result_ = given ? Ref::borrowed(out) : empty_like(x, seen_);
    if (out == x) return;
    out_.emplace(result_.get(), given ? "out" : name, given && seen_.kind != Kind::torch);
    if (given && (out_->kind == Kind::torch) != (seen_.kind == Kind::torch)) {
      raise_type_error("[", how.operation, "] out must be a tensor of torch if ", name, " is, and only then, but got ",
                       type_name(out));
    }
    if (out_->ndim == seen_.ndim && out_->shape == seen_.shape) return;
    fail(Code::SHAPE, how.operation, "out must have the shape ", seen_.shape_text(), " of ", name, " but got ",
         out_->shape_text());
  }

  // Whether torch's own operations must rotate a tensor: one of float64, or with gaps inside of its heads.
  bool must_go_back() const noexcept {
    const auto gaps = [](const ArrayView& view) {
      return view.columns() > 1 && view.elements() > 0 &&
             view.column_step() != static_cast<std::int64_t>(bits_of(view.type) / 8);
    };
    return seen_.kind == Kind::torch && (seen_.type == ElementType::f64 || gaps(seen_) || (out_ && gaps(*out_)));
  }
  std::int64_t bytes() const noexcept { return seen_.bytes(); }
  Kind kind() const noexcept { return seen_.kind; }
  bool in_place() const noexcept { return !out_; }
  InOut pair(const How& how) const {
    if (out_) return {how.layout.heads(seen_, name_), how.layout.writable_heads(*out_, "out")};
    const Heads both = how.layout.writable_heads(seen_, name_);
    return {both, both};
  }
  Ref result(bool given) {
    if (given && seen_.kind == Kind::torch) Torch::get().tell_of_write(result_.get());
    return finished(std::move(result_), seen_.kind);
  }

 private:
  const char* name_;
  ArrayView seen_;
  Ref result_;
  std::optional<ArrayView> out_;
};

// Returns None for a tensor of torch whose memory is not enough.
Ref rotate_one(PyObject* word, PyObject* x, PyObject* table, PyObject* layout, PyObject* out, PyObject* first,
               PyObject* direction) {
  if (is_tensor(x) && !goes_straight(table, {x, out})) return none();
  const How how(word, out, table, layout, first, direction);
  Operand operand(x, out, "x", how);
  if (operand.must_go_back()) return none();
  const Work work(operand.bytes(), heads_are_large, operand.kind());
  const InOut pair = operand.pair(how);
  const auto turn = [&](const auto&... heads) {
    const Unlocked unlocked(work.large());
    rotate(heads..., how.table, how.options(work));
  };
  operand.in_place() ? turn(pair.out) : turn(pair.in, pair.out);
  return operand.result(out != Py_None);
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

// Returns None as rotate_one() does.
Ref rotate_two(PyObject* word, PyObject* q, PyObject* k, PyObject* table, PyObject* layout, PyObject* q_out,
               PyObject* k_out, PyObject* first, PyObject* direction, PyObject* query_scale) {
  if (is_tensor(q) && !goes_straight(table, {q, k, q_out, k_out, query_scale})) return none();
  const How how(word, q_out, table, layout, first, direction);
  Operand query(q, q_out, "q", how), key(k, k_out, "k", how);
  if (query.kind() != key.kind()) {
    raise_type_error("[", how.operation, "] q and k must be arrays of one library but got ", type_name(q), " and ",
                     type_name(k));
  }
  if (query.must_go_back() || key.must_go_back()) return none();
  const Work work(query.bytes() + key.bytes(), heads_are_large, query.kind());
  const InOut qs = query.pair(how), ks = key.pair(how);
  if (qs.in.layout.tokens != ks.in.layout.tokens) {
    fail(Code::SHAPE, how.operation, "q and k must have the same tokens but got ", qs.in.layout.tokens, " and ",
         ks.in.layout.tokens, ": rotate each by its own table with rotary.rotate");
  }
  const std::vector<float> factors = factors_of(how, query_scale, qs.in.layout);
  const auto turn = [&](const auto&... heads) {
    const Unlocked unlocked(work.large());
    rotate_qk(heads..., how.table, how.options(work), factors);
  };
  query.in_place() && key.in_place() ? turn(qs.out, ks.out) : turn(qs, ks);
  const bool given = q_out != Py_None;
  const Ref first_result = query.result(given), second_result = key.result(given);
  return checked(PyTuple_Pack(2, first_result.get(), second_result.get()));
}

}  // namespace

std::vector<PyMethodDef> rotate_methods() {
  return {method<rotate_one>("rotate"), method<rotate_two>("rotate_qk"), method<get_is_quiet>("_is_quiet"),
          method<get_is_plain>("_is_plain")};
}

}  // namespace rotary::python
