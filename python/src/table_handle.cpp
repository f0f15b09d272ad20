// Rows of cos and sin: those of a rotary.Table, and the caller's.
#include <cstring>

#include "module.h"
#include "values.h"

namespace rotary::python {

namespace {

// ---- _Rows ----

using SharedTable = std::shared_ptr<const Table>;

struct RowsObject {
  PyObject_HEAD SharedTable table;
  std::span<const float> shown;  // cos or sin, in an object that _memory() returns: its buffer
  PyObject* torch;               // the tuple of torch_rows(), or null
};

PyTypeObject* rows_type = nullptr;

RowsObject& object_of(PyObject* self) { return *reinterpret_cast<RowsObject*>(self); }

Ref new_rows(PyTypeObject* type, SharedTable table, std::span<const float> shown = {}) {
  Ref rows = checked(PyType_GenericAlloc(type, 0));
  std::construct_at(&object_of(rows.get()).table, std::move(table));
  std::construct_at(&object_of(rows.get()).shown, shown);
  return rows;
}

// [tokens, pairs], [batch, tokens, pairs] or [batch, tokens, heads, pairs].
std::vector<std::int64_t> shape_of(const Table& table, bool batched) {
  if (table.head_rows() > 1) return {table.batch(), table.tokens(), table.head_rows(), table.pairs()};
  if (batched) return {table.batch(), table.tokens(), table.pairs()};
  return {table.tokens(), table.pairs()};
}

// The table, its shape and its pairing.
Ref rows_and_state(PyObject* type, Table table, bool batched) {
  const std::vector<std::int64_t> shape = shape_of(table, batched);
  const char* pairing = name(table.pairing());
  auto shared = std::make_shared<const Table>(std::move(table));
  return checked(Py_BuildValue("(NNs)", new_rows(reinterpret_cast<PyTypeObject*>(type), std::move(shared)).release(),
                               tuple_of(shape).release(), pairing));
}

Ref create_rows_of(PyObject* type, PyObject* operation, PyObject* rows, PyObject* xpos) {
  const GivenTable seen(rows, view_of(operation, "operation").data(), false);
  const Table& one = seen.table();
  Table table(one.cos(), one.sin(), one.pairs(), one.pairing(), one.batch(), one.head_rows(), is_true(xpos));
  return rows_and_state(type, std::move(table), seen.batched());
}

// Frequencies and positions. source: a rotary.Frequencies, or a rotary.Rope, whose Dynamic or LongRope scaling uses the
// length, by default that of the positions.
struct Turning {
  Turning(PyObject* source, PyObject* positions, PyObject* length) : speeds(frequencies_or_null(source)) {
    if (speeds != nullptr && length != Py_None)
      fail(Code::LENGTH, "Table", "length must go to rotary.frequencies(rope, length), which made these frequencies");
    const Rope* rope = speeds == nullptr ? &rope_of(source) : nullptr;
    at = positions_from(positions, rope == nullptr ? speeds->axes() : rope->axes());
    if (rope == nullptr) return;
    const std::int64_t tokens = length == Py_None ? at.length() : integer_of(length, "length");
    speeds = &own.emplace(named("Table", [&] { return frequencies(*rope, tokens); }));
  }
  Turning(const Turning&) = delete;
  Work work() const {
    const auto values = static_cast<std::int64_t>(at.reals.size() + at.integers.size());
    return {values * static_cast<std::int64_t>(speeds->inv_freq.size() * 2 * sizeof(float)), table_is_large};
  }

  PositionSet at;
  std::optional<Frequencies> own;
  const Frequencies* speeds;
};

// Returns also the type, shape and memory of the positions.
Ref create_rows_at(PyObject* type, PyObject* source, PyObject* positions, PyObject* length, PyObject* angles,
                   PyObject* rounding) {
  const Turning turning(source, positions, length);
  const PositionSet& at = turning.at;
  const Work work = turning.work();
  const TableOptions options(parse_angles(view_of(angles, "angles")), parse_rounding(view_of(rounding, "rounding")),
                             work.executor());
  const auto make = [&] { return Table(*turning.speeds, at.view(), options); };
  Table table = named("Table", [&] { return unlocked(make, work.large()); });
  const bool real = !at.reals.empty();
  return checked(Py_BuildValue("(N(sNN))", rows_and_state(type, std::move(table), at.batched).release(),
                               real ? "F64" : "I64", tuple_of(at.shape()).release(),
                               (real ? bytes_of(at.reals) : bytes_of(at.integers)).release()));
}

Ref create_between(PyObject* type, PyObject* from, PyObject* from_positions, PyObject* to, PyObject* to_positions,
                   PyObject* rounding) {
  const Turning before(from, from_positions, Py_None), after(to, to_positions, Py_None);
  const Work work = after.work();
  const TableOptions options(Angles::exact, parse_rounding(view_of(rounding, "rounding")), work.executor());
  const auto turn = [&] { return between(*before.speeds, before.at.view(), *after.speeds, after.at.view(), options); };
  Table table = named("Table.between", [&] { return unlocked(turn, work.large()); });
  return rows_and_state(type, std::move(table), before.at.batched || after.at.batched);
}

void free_rows(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  std::destroy_at(&object_of(self).table);
  Py_XDECREF(object_of(self).torch);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// ---- the memory of cos or sin, as a buffer ----

std::span<const float> rows_of(const Table& table, PyObject* which) {
  return is_true(which) ? table.sin() : table.cos();
}

const SharedTable& shared(PyObject* table) {
  if (table_or_null(table) == nullptr) raise_type_error("a rotary.Table is needed but got ", type_name(table));
  return object_of(table).table;
}

Ref get_memory(PyObject* table, PyObject* which) {
  return new_rows(rows_type, shared(table), rows_of(*shared(table), which));
}

int export_buffer(PyObject* self, Py_buffer* view, int flags) {
  const std::span<const float> shown = object_of(self).shown;
  if (Py_TYPE(self) == rows_type) {
    return PyBuffer_FillInfo(view, self, const_cast<float*>(shown.data()), static_cast<Py_ssize_t>(shown.size_bytes()),
                             1, flags);
  }
  PyErr_SetString(PyExc_BufferError, "a table shows its memory as cos and sin");
  return -1;
}

// ---- torch ----

// Item `which` of the tuple of cos and sin as torch's tensors and a dict for their copies on other devices.
PyObject* torch_rows(PyObject* self, void* which) {
  return guarded([&] {
    if (object_of(self).torch == nullptr) {
      const Ref make = module_function("rotary._torch.tables", "tensors_of");
      Ref tensors = checked(PyObject_CallFunctionObjArgs(make.get(), self, nullptr));
      if (object_of(self).torch == nullptr) object_of(self).torch = tensors.release();
    }
    return Ref::borrowed(PyTuple_GetItem(object_of(self).torch, *static_cast<Py_ssize_t*>(which)));
  });
}

// The content of a capsule of DLPack. It keeps the rows alive and not the Python table, which keeps the tensors.
struct Exported {
  SharedTable table;
  std::vector<std::int64_t> shape;
  dlpack::Managed managed;
};

Ref to_dlpack(PyObject* object, PyObject* which, PyObject* is_batched) {
  const SharedTable& table = shared(object);
  auto exported = std::make_unique<Exported>(Exported{table, shape_of(*table, is_true(is_batched)), {}});
  auto* data = const_cast<float*>(rows_of(*table, which).data());
  exported->managed = {{data,
                        {dlpack::cpu, 0},
                        static_cast<int>(exported->shape.size()),
                        {dlpack::code_float, 32, 1},
                        exported->shape.data(),
                        {},
                        0},
                       exported.get(),
                       [](dlpack::Managed* tensor) { delete static_cast<Exported*>(tensor->context); }};
  Ref capsule = checked(PyCapsule_New(&exported->managed, "dltensor", [](PyObject* held) {
    if (PyCapsule_IsValid(held, "dltensor") == 0) return;  // its tensor was taken over
    auto* tensor = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(held, "dltensor"));
    tensor->deleter(tensor);
  }));
  exported.release();
  return capsule;
}

// ---- the caller's rows ----

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

// ---- the types ----

PyObject* has_xpos(PyObject* object, void*) { return PyBool_FromLong(shared(object)->xpos()); }

Py_ssize_t places[] = {0, 1, 2};
PyGetSetDef rows_attributes[] = {{"_torch_cos", torch_rows, nullptr, nullptr, &places[0]},
                                 {"_torch_sin", torch_rows, nullptr, nullptr, &places[1]},
                                 {"_torch_copies", torch_rows, nullptr, nullptr, &places[2]},
                                 {"_xpos", has_xpos, nullptr, nullptr, nullptr},
                                 {}};

void make_types() {
  constexpr unsigned hidden = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE;
  PyType_Slot of_rows[] = {
      {Py_tp_dealloc, slot(free_rows)}, {Py_bf_getbuffer, slot(export_buffer)}, {Py_tp_getset, rows_attributes}, {}};
  PyType_Spec rows = {"rotary._core._Rows", sizeof(RowsObject), 0, hidden | Py_TPFLAGS_BASETYPE, of_rows};
  rows_type = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&rows)).release());
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

void add_rows_type(PyObject* module) {
  if (rows_type == nullptr) make_types();
  checked(PyModule_AddObjectRef(module, "_Rows", reinterpret_cast<PyObject*>(rows_type)));
}

const Table* table_or_null(PyObject* object) {
  return PyObject_TypeCheck(object, rows_type) != 0 ? object_of(object).table.get() : nullptr;
}

std::vector<PyMethodDef> table_methods() {
  return {method<create_rows_at>("_rows_at"), method<create_between>("_between"), method<create_rows_of>("_rows_of"),
          method<get_memory>("_memory"),      method<to_dlpack>("_dlpack"),       method<get_doubling>("_doubling")};
}

}  // namespace rotary::python
