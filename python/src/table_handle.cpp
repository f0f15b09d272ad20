#include "given.h"

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

void add_rows_type(PyObject* module) {
  if (rows_type == nullptr) make_types();
  checked(PyModule_AddObjectRef(module, "_Rows", reinterpret_cast<PyObject*>(rows_type)));
}

const Table* table_or_null(PyObject* object) {
  return PyObject_TypeCheck(object, rows_type) != 0 ? object_of(object).table.get() : nullptr;
}

std::vector<PyMethodDef> table_methods() {
  return {method<create_rows_at>("_rows_at"), method<create_between>("_between"), method<create_rows_of>("_rows_of"),
          method<get_memory>("_memory"), method<to_dlpack>("_dlpack")};
}

}  // namespace rotary::python
