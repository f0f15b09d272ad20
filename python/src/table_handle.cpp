#include "given.h"

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "dlpack.h"
#include "module.h"
#include "values.h"

namespace rotary::python {

namespace {

// ---- _Rows ----

using SharedTable = std::shared_ptr<const Table>;

struct RowsObject {
  PyObject_HEAD SharedTable table;
  PyObject* torch;  // of torch_rows(), or null
};

PyTypeObject *rows_type = nullptr, *memory_type = nullptr;

RowsObject& object_of(PyObject* self) { return *reinterpret_cast<RowsObject*>(self); }

Ref new_rows(PyTypeObject* type, Table table) {
  Ref made = checked(PyType_GenericAlloc(type, 0));
  std::construct_at(&object_of(made.get()).table, std::make_shared<const Table>(std::move(table)));
  return made;
}

// (the table, its shape, its pairing)
Ref rows_and_state(PyObject* type, Table table, bool batched) {
  const std::int64_t shape[] = {table.batch(), table.tokens(), table.pairs()};
  const char* pairing = name(table.pairing());
  return checked(Py_BuildValue("(NNs)", new_rows(reinterpret_cast<PyTypeObject*>(type), std::move(table)).release(),
                               tuple_of(std::span(shape).subspan(batched ? 0 : 1)).release(), pairing));
}

Ref create_rows_of(PyObject* type, PyObject* operation, PyObject* rows) {
  const GivenTable seen(rows, view_of(operation, "operation").data(), false);
  return rows_and_state(type, Table(seen.table()), seen.batched());
}

// source: of _speeds, or a rotary.Rope: Dynamic and LongRope take the length in play, by default that of the positions.
Ref create_rows_at(PyObject* type, PyObject* source, PyObject* positions, PyObject* length, PyObject* angles,
                   PyObject* rounding) {
  const Frequencies* speeds = frequencies_or_null(source);
  const Rope* rope = speeds == nullptr ? &rope_of(source) : nullptr;
  const GivenPositions at = positions_from(positions, rope ? Frequencies{.axis = rope->axis}.axes() : speeds->axes());
  std::optional<Frequencies> made;
  if (rope != nullptr) {
    speeds = &made.emplace(frequencies(*rope, length == Py_None ? at.length() : integer_of(length, "length")));
  }
  const auto values = static_cast<std::int64_t>(at.reals.size() + at.integers.size());
  const Work work(values * static_cast<std::int64_t>(speeds->inv_freq.size() * 2 * sizeof(float)), table_is_large);
  const TableOptions options(parse_angles(view_of(angles, "angles")), parse_rounding(view_of(rounding, "rounding")),
                             work.executor());
  Table table = unlocked([&] { return Table(*speeds, at.view(), options); }, work.large());
  const bool real = !at.reals.empty();
  return checked(Py_BuildValue("(N(sNN))", rows_and_state(type, std::move(table), at.batched).release(),
                               real ? "F64" : "I64", tuple_of(at.shape).release(),
                               (real ? bytes_of(at.reals) : bytes_of(at.integers)).release()));
}

void free_rows(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  std::destroy_at(&object_of(self).table);
  Py_XDECREF(object_of(self).torch);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// ---- the memory of cos or sin, as a buffer ----

struct MemoryObject {
  PyObject_HEAD SharedTable table;
  std::span<const float> values;
};

std::span<const float> rows_of(const Table& table, PyObject* which) {
  return is_true(which) ? table.sin() : table.cos();
}

PyObject* get_memory(PyObject* self, PyObject* which) {
  return guarded([&] {
    const SharedTable& table = object_of(self).table;
    const std::span<const float> values = rows_of(*table, which);
    Ref made = checked(PyType_GenericAlloc(memory_type, 0));
    auto& memory = *reinterpret_cast<MemoryObject*>(made.get());
    std::construct_at(&memory.table, table);
    std::construct_at(&memory.values, values);
    return made;
  });
}

int export_buffer(PyObject* self, Py_buffer* view, int flags) {
  const std::span<const float> values = reinterpret_cast<MemoryObject*>(self)->values;
  return PyBuffer_FillInfo(view, self, const_cast<float*>(values.data()), static_cast<Py_ssize_t>(values.size_bytes()),
                           1, flags);
}

void free_memory(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  std::destroy_at(&reinterpret_cast<MemoryObject*>(self)->table);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// ---- torch ----

// (cos, sin) as tensors of torch, and a dict for their copies on other devices.
PyObject* torch_rows(PyObject* self, void* which) {
  return guarded([&] {
    if (object_of(self).torch == nullptr) {
      const Ref make = module_function("rotary._torch.tables", "tensors_of");
      Ref made = checked(PyObject_CallFunctionObjArgs(make.get(), self, nullptr));
      if (object_of(self).torch == nullptr) object_of(self).torch = made.release();
    }
    return Ref::borrowed(PyTuple_GetItem(object_of(self).torch, *static_cast<Py_ssize_t*>(which)));
  });
}

// What a capsule of DLPack holds. It keeps the rows and not the table, which keeps the tensors.
struct Exported {
  SharedTable table;
  std::array<std::int64_t, 3> shape;
  dlpack::Managed managed;
};

// (which, batched): of [tokens, pairs], or of [batch, tokens, pairs].
PyObject* to_dlpack(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    if (count != 2) raise_type_error("_dlpack takes which and batched");
    const SharedTable& table = object_of(self).table;
    auto made = std::make_unique<Exported>(Exported{table, {table->batch(), table->tokens(), table->pairs()}, {}});
    const bool batched = is_true(given[1]);
    auto* data = const_cast<float*>(rows_of(*table, given[0]).data());
    made->managed = {
        {data, {dlpack::cpu, 0}, batched ? 3 : 2, {dlpack::code_float, 32, 1}, &made->shape[batched ? 0 : 1], {}, 0},
        made.get(),
        [](dlpack::Managed* tensor) { delete static_cast<Exported*>(tensor->context); }};
    Ref capsule = checked(PyCapsule_New(&made->managed, "dltensor", [](PyObject* held) {
      if (PyCapsule_IsValid(held, "dltensor") == 0) return;  // somebody took it
      auto* tensor = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(held, "dltensor"));
      tensor->deleter(tensor);
    }));
    made.release();
    return capsule;
  });
}

// ---- the types ----

PyMethodDef methods_of_rows[] = {
    {"_memory", get_memory, METH_O, nullptr},
    {"_dlpack", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(to_dlpack)), METH_FASTCALL, nullptr},
    {}};
Py_ssize_t places[] = {0, 1, 2};
PyGetSetDef rows_attributes[] = {{"_torch_cos", torch_rows, nullptr, nullptr, &places[0]},
                                 {"_torch_sin", torch_rows, nullptr, nullptr, &places[1]},
                                 {"_torch_copies", torch_rows, nullptr, nullptr, &places[2]},
                                 {}};

void make_types() {
  PyType_Slot of_memory[] = {{Py_tp_dealloc, slot(free_memory)}, {Py_bf_getbuffer, slot(export_buffer)}, {}};
  constexpr unsigned hidden = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE;
  PyType_Spec memory = {"rotary._core._Memory", sizeof(MemoryObject), 0, hidden, of_memory};
  memory_type = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&memory)).release());
  PyType_Slot of_rows[] = {
      {Py_tp_dealloc, slot(free_rows)}, {Py_tp_methods, methods_of_rows}, {Py_tp_getset, rows_attributes}, {}};
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
  return {method<create_rows_at>("_rows_at"), method<create_rows_of>("_rows_of")};
}

}  // namespace rotary::python
