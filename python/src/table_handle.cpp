#include "table_handle.h"

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "dlpack.h"
#include "positions.h"
#include "threads.h"
#include "values.h"

namespace rotary::python {

namespace {

// ---- frequencies: a capsule ----

constexpr const char* speeds_name = "rotary frequencies";

template <class Value>
std::vector<Value> values_of(PyObject* bytes) {
  const Buffer seen(bytes, PyBUF_SIMPLE);
  const auto size = static_cast<std::size_t>(seen->len);
  if (size % sizeof(Value) != 0) fail(Code::SHAPE, "Frequencies", "the state must hold whole numbers");
  std::vector<Value> values(size / sizeof(Value));
  if (size > 0) std::memcpy(values.data(), seen->buf, size);
  return values;
}

template <class Value>
Ref bytes_of(const std::vector<Value>& values) {
  return new_bytes(values.data(), values.size() * sizeof(Value));
}

PyObject* doubles(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    const auto [values, what] = arguments<2>(given, count);
    return bytes_of(doubles_of(values, text_of(what, "name").c_str()));
  });
}

PyObject* make_frequencies(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    const auto [rope, length] = arguments<2>(given, count, 1);
    const Rope value = rope_from(rope);
    const Frequencies made = length == nullptr ? frequencies(value) : frequencies(value, integer_of(length, "length"));
    return checked(Py_BuildValue("(NsNdNN)", bytes_of(made.inv_freq).release(), name(made.pairing),
                                 bytes_of(made.axis).release(), made.attention_factor,
                                 PyBool_FromLong(made.clockwise ? 1 : 0), bytes_of(made.inv_freq_float32).release()));
  });
}

void free_speeds(PyObject* capsule) { delete static_cast<Frequencies*>(PyCapsule_GetPointer(capsule, speeds_name)); }

PyObject* make_speeds(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    const auto [inv_freq, pairing, axis, attention_factor, clockwise, float32] = arguments<6>(given, count);
    auto made = std::make_unique<Frequencies>();
    made->inv_freq = values_of<double>(inv_freq);
    made->pairing = parse_pairing(view_of(pairing, "pairing"));
    made->axis = values_of<std::uint8_t>(axis);
    made->attention_factor = double_of(attention_factor, "attention_factor");
    made->clockwise = is_true(clockwise);
    made->inv_freq_float32 = values_of<float>(float32);
    const auto fits = [pairs = made->inv_freq.size()](std::size_t size) { return size == 0 || size == pairs; };
    if (!fits(made->axis.size()) || !fits(made->inv_freq_float32.size())) {
      fail(Code::SHAPE, "Frequencies",
           "axis and inv_freq_float32 must have one value for each of the " + std::to_string(made->inv_freq.size()) +
               " pairs");
    }
    Ref capsule = checked(PyCapsule_New(made.get(), speeds_name, free_speeds));
    made.release();
    return capsule;
  });
}

// ---- rows at positions ----

struct Source {
  const Frequencies* frequencies;
  GivenPositions positions;
  std::optional<Frequencies> made;
};

// source: a capsule, or a rotary.Rope: Dynamic and LongRope take the length in play, by default that of the positions.
Source source_of(PyObject* source, PyObject* positions, PyObject* length) {
  if (PyCapsule_IsValid(source, speeds_name) != 0) {
    const auto* ready = static_cast<const Frequencies*>(PyCapsule_GetPointer(source, speeds_name));
    return {ready, positions_from(positions, ready->axes()), std::nullopt};
  }
  const Rope rope = rope_from(source);
  Source read{nullptr, positions_from(positions, Frequencies{.axis = rope.axis}.axes()), std::nullopt};
  read.made = frequencies(rope, length == nullptr ? read.positions.length() : integer_of(length, "length"));
  return read;
}

Ref tuple_of_shape(std::span<const std::int64_t> shape) {
  Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    checked(PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(d), PyLong_FromLongLong(shape[d])));
  }
  return tuple;
}

// (ElementType's name, shape, bytes)
Ref state_of(const GivenPositions& given) {
  const Ref shape = tuple_of_shape(given.shape);
  return checked(Py_BuildValue("(sON)", given.real ? "F64" : "I64", shape.get(),
                               (given.real ? bytes_of(given.reals) : bytes_of(given.integers)).release()));
}

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

std::span<const float> rows_of(const SharedTable& table, PyObject* which) {
  return is_true(which) ? table->sin() : table->cos();
}

PyObject* create_rows(PyTypeObject* type, PyObject* positional, PyObject*) {
  return guarded([&] {
    PyObject *cos = nullptr, *sin = nullptr, *shape_object = nullptr;
    const char* pairing = nullptr;
    if (PyArg_ParseTuple(positional, "OOOs", &cos, &sin, &shape_object, &pairing) == 0) throw Raised{};
    const std::vector<int> shape = ints_of(shape_object, "shape");
    if (shape.size() != 2 && shape.size() != 3) {
      fail(Code::SHAPE, "Table", "rows must be [tokens, pairs] or [batch, tokens, pairs]");
    }
    Table table(values_of<float>(cos), values_of<float>(sin), shape.back(), parse_pairing(pairing),
                shape.size() == 3 ? shape.front() : 1);
    if (table.tokens() != shape[shape.size() - 2]) {
      fail(Code::SHAPE, "Table", "the rows must fill their shape but are of " + std::to_string(table.tokens()));
    }
    return new_rows(type, std::move(table));
  });
}

PyObject* create_rows_at(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    const auto [type, object, positions, length, angles, rounding] = arguments<6>(given, count, 3);
    Source source = source_of(object, positions, length);
    const Frequencies& speeds = source.made ? *source.made : *source.frequencies;
    const GivenPositions& at = source.positions;
    const auto values = static_cast<std::int64_t>(at.real ? at.reals.size() : at.integers.size());
    const Work work(values * static_cast<std::int64_t>(speeds.inv_freq.size() * 2 * sizeof(float)), table_is_large);
    const TableOptions options(parse_angles(view_of(angles, "angles")), parse_rounding(view_of(rounding, "rounding")),
                               work.executor());
    std::optional<Table> table;
    {
      const Unlocked unlocked(work.large());
      table.emplace(speeds, at.view(), options);
    }
    const std::int64_t shape[] = {table->batch(), table->tokens(), table->pairs()};
    const Ref sizes = tuple_of_shape(std::span(shape).subspan(at.batched ? 0 : 1));
    const char* pairing = name(table->pairing());
    return checked(Py_BuildValue("(NOsN)", new_rows(reinterpret_cast<PyTypeObject*>(type), std::move(*table)).release(),
                                 sizes.get(), pairing, state_of(at).release()));
  });
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

PyObject* get_memory(PyObject* self, PyObject* which) {
  return guarded([&] {
    const SharedTable& table = object_of(self).table;
    const std::span<const float> values = rows_of(table, which);
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
  std::array<std::int64_t, 3> shape{};
  dlpack::Managed managed{};
  static void drop(dlpack::Managed* tensor) { delete static_cast<Exported*>(tensor->context); }
};

void drop_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;  // somebody took it
  Exported::drop(static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, "dltensor")));
}

// (which, batched): of [tokens, pairs], or of [batch, tokens, pairs].
PyObject* to_dlpack(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] {
    const auto [which, batched] = arguments<2>(given, count);
    auto exported = std::make_unique<Exported>();
    exported->table = object_of(self).table;
    const Table& table = *exported->table;
    exported->shape = {table.batch(), table.tokens(), table.pairs()};
    const int rank = is_true(batched) ? 3 : 2;
    auto* data = const_cast<float*>(rows_of(exported->table, which).data());
    exported->managed = {
        {data, {dlpack::cpu, 0}, rank, {dlpack::code_float, 32, 1}, &exported->shape[rank == 3 ? 0 : 1], nullptr, 0},
        exported.get(),
        Exported::drop};
    Ref capsule = checked(PyCapsule_New(&exported->managed, "dltensor", drop_capsule));
    exported.release();
    return capsule;
  });
}

// ---- the types ----

PyMethodDef rows_methods[] = {{"_memory", get_memory, METH_O, nullptr}, placed("_dlpack", to_dlpack), {}};
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
  PyType_Slot of_rows[] = {{Py_tp_new, slot(create_rows)},
                           {Py_tp_dealloc, slot(free_rows)},
                           {Py_tp_methods, rows_methods},
                           {Py_tp_getset, rows_attributes},
                           {}};
  constexpr unsigned base = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE;
  PyType_Spec rows = {"rotary._core._Rows", sizeof(RowsObject), 0, base, of_rows};
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
  return {placed("_frequencies", make_frequencies), placed("_speeds", make_speeds), placed("_rows_at", create_rows_at),
          placed("_doubles", doubles)};
}

}  // namespace rotary::python
