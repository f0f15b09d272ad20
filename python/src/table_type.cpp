#include "types.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arguments.h"
#include "memory.h"
#include "positions.h"
#include "threads.h"
#include "values.h"

namespace rotary::python {

namespace {

struct TableObject {
  PyObject_HEAD std::shared_ptr<const Table>* value;
  PyObject* positions;  // memory.h's, or None
  PyObject* torch;      // of torch_rows(), made when first asked for; or null
  bool batched;         // shape is [batch, tokens, pairs]
};

PyObject* table_type = nullptr;

TableObject& object_of(PyObject* self) { return *reinterpret_cast<TableObject*>(self); }
const Table& value_of(PyObject* self) { return **object_of(self).value; }

std::vector<std::int64_t> shape_of(PyObject* self) {
  const Table& table = value_of(self);
  if (!object_of(self).batched) return {table.tokens(), table.pairs()};
  return {table.batch(), table.tokens(), table.pairs()};
}

Ref kept(const GivenPositions& given) {
  const ElementType type = given.real ? ElementType::f64 : ElementType::i64;
  Ref memory = new_memory(type, given.shape);
  const void* values = given.real ? static_cast<const void*>(given.reals.data()) : given.integers.data();
  const std::size_t count = given.real ? given.reals.size() : given.integers.size();
  if (count > 0) std::memcpy(data_of_memory(memory.get()), values, count * sizeof(double));
  return new_memory_view(memory.get(), data_of_memory(memory.get()), type, given.shape, true);
}

// Dynamic and LongRope take the length in play: by default that of these positions.
Ref make(PyObject* source, PyObject* positions, PyObject* length, Angles angles, Rounding rounding) {
  const Frequencies* ready = frequencies_in(source);
  std::optional<Frequencies> made;
  GivenPositions given;
  if (ready != nullptr) {
    if (length != nullptr) {
      fail(Code::LENGTH, "Table", "length must go to rotary.frequencies(rope, length), which made these frequencies");
    }
    given = positions_from(positions, ready->axes());
  } else if (is_rope(source)) {
    const Rope rope = rope_from(source);
    const auto last = std::max_element(rope.axis.begin(), rope.axis.end());
    given = positions_from(positions, last == rope.axis.end() ? 1 : *last + 1);
    made = frequencies(rope, length == nullptr ? given.length() : integer_of(length, "length"));
    ready = &*made;
  } else {
    raise_type_error("Table() takes a rotary.Rope or rotary.Frequencies but got " + type_name(source));
  }
  const auto values = static_cast<std::int64_t>(given.real ? given.reals.size() : given.integers.size());
  const Work work(values * static_cast<std::int64_t>(ready->inv_freq.size() * 2 * sizeof(float)), table_is_large);
  std::optional<Table> table;
  {
    const Unlocked unlocked(work.large());
    table.emplace(*ready, given.view(), TableOptions(angles, rounding, work.executor()));
  }
  return new_table(std::move(*table), given.batched, kept(given));
}

PyObject* create(PyTypeObject*, PyObject* positional, PyObject* words) {
  return guarded([&]() -> PyObject* {
    PyObject *source = nullptr, *positions = nullptr, *length = Py_None;
    const char *angles = "exact", *rounding = "f32";
    const char* const names[] = {"source", "positions", "length", "angles", "rounding", nullptr};
    if (PyArg_ParseTupleAndKeywords(positional, words, "OO|O$ss:Table", const_cast<char**>(names), &source, &positions,
                                    &length, &angles, &rounding) == 0) {
      throw Raised{};
    }
    return make(source, positions, length == Py_None ? nullptr : length, parse_angles(angles), parse_rounding(rounding))
        .release();
  });
}

void free_table(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete object_of(self).value;
  Py_XDECREF(object_of(self).positions);
  Py_XDECREF(object_of(self).torch);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// ---- attributes ----

PyObject* rows(PyObject* self, std::span<const float> values) {
  return guarded(
      [&]() -> PyObject* { return new_array_view(self, values.data(), ElementType::f32, shape_of(self)).release(); });
}
PyObject* get_cos(PyObject* self, void*) { return rows(self, value_of(self).cos()); }
PyObject* get_sin(PyObject* self, void*) { return rows(self, value_of(self).sin()); }

// Of torch, whose tensors see the rows' memory, and keep that and not the table: no reference leads back.
void free_rows(PyObject* capsule) {
  delete static_cast<std::shared_ptr<const Table>*>(PyCapsule_GetPointer(capsule, "rotary rows"));
}
Ref shared_rows(PyObject* self, std::span<const float> values) {
  auto* kept = new std::shared_ptr<const Table>(*object_of(self).value);
  Ref owner(PyCapsule_New(kept, "rotary rows", free_rows));
  if (!owner) delete kept;
  checked(owner ? 0 : -1);
  return new_memory_view(owner.get(), values.data(), ElementType::f32, shape_of(self), false);
}
// (cos, sin) as tensors of torch, and a dict for their copies on other devices. torch.compile follows attributes that
// are tensors or text, so there is an attribute for each.
PyObject* torch_rows(PyObject* self, Py_ssize_t which) {
  return guarded([&]() -> PyObject* {
    if (object_of(self).torch == nullptr) {
      const Ref module = checked(PyImport_ImportModule("rotary._torch.tables"));
      const Ref cos = shared_rows(self, value_of(self).cos()), sin = shared_rows(self, value_of(self).sin());
      Ref made = checked(PyObject_CallMethod(module.get(), "tensors_of", "OO", cos.get(), sin.get()));
      if (object_of(self).torch == nullptr) object_of(self).torch = made.release();
    }
    return Ref::borrowed(PyTuple_GetItem(object_of(self).torch, which)).release();
  });
}
PyObject* get_torch_cos(PyObject* self, void*) { return torch_rows(self, 0); }
PyObject* get_torch_sin(PyObject* self, void*) { return torch_rows(self, 1); }
PyObject* get_torch_copies(PyObject* self, void*) { return torch_rows(self, 2); }
PyObject* get_no_doubling(PyObject*, void*) { return PyUnicode_FromString(""); }
PyObject* get_slots(PyObject*, void*) { return PyTuple_New(0); }
PyObject* get_positions(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    PyObject* memory = object_of(self).positions;
    return (memory == Py_None ? Ref::borrowed(memory) : array_of_memory(memory)).release();
  });
}
PyObject* get_pairing(PyObject* self, void*) { return PyUnicode_FromString(name(value_of(self).pairing())); }
PyObject* get_rotary_dim(PyObject* self, void*) { return PyLong_FromLong(value_of(self).rotary_dim()); }
PyObject* get_pairs(PyObject* self, void*) { return PyLong_FromLong(value_of(self).pairs()); }
PyObject* get_tokens(PyObject* self, void*) { return PyLong_FromLongLong(value_of(self).tokens()); }
PyObject* get_batch(PyObject* self, void*) { return PyLong_FromLong(value_of(self).batch()); }
PyObject* get_shape(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const std::vector<std::int64_t> shape = shape_of(self);
    Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
    for (std::size_t d = 0; d < shape.size(); ++d) {
      checked(PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(d), PyLong_FromLongLong(shape[d])));
    }
    return tuple.release();
  });
}

PyObject* represent(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Table& table = value_of(self);
    const std::string batch = table.batch() == 1 ? "" : std::to_string(table.batch()) + " x ";
    const std::string text = "<rotary.Table of " + batch + std::to_string(table.tokens()) + " tokens, rotary_dim " +
                             std::to_string(table.rotary_dim()) + ", " + name(table.pairing()) + ">";
    return new_text(text).release();
  });
}

// ---- comparing and pickling ----

Ref bytes_of(std::span<const float> values) {
  return checked(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(values.data()),
                                           static_cast<Py_ssize_t>(values.size_bytes())));
}

// (cos, sin, pairs, pairing, batch, batched, positions): the last None, or (shape, whether they are floats, their
// bytes).
Ref state_of(PyObject* self) {
  const Table& table = value_of(self);
  Ref positions = Ref::borrowed(Py_None);
  if (PyObject* memory = object_of(self).positions; memory != Py_None) {
    const Ref view = checked(PyMemoryView_FromObject(memory));
    const Ref shape = checked(PyObject_GetAttrString(view.get(), "shape"));
    const Ref format = checked(PyObject_GetAttrString(view.get(), "format"));
    const bool real = view_of(format.get(), "format") == "d";
    Ref bytes = checked(PyObject_CallMethod(view.get(), "tobytes", nullptr));
    positions = checked(Py_BuildValue("(OON)", shape.get(), real ? Py_True : Py_False, bytes.release()));
  }
  return checked(Py_BuildValue("(NNisiON)", bytes_of(table.cos()).release(), bytes_of(table.sin()).release(),
                               table.pairs(), name(table.pairing()), table.batch(),
                               object_of(self).batched ? Py_True : Py_False, positions.release()));
}

PyObject* compare(PyObject* self, PyObject* other, int operation) {
  return compare_states(self, other, operation, state_of);
}
Py_hash_t hash(PyObject* self) { return hash_state(self, state_of); }

PyObject* reduce(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Ref module = checked(PyImport_ImportModule("rotary._core"));
    Ref made_by = checked(PyObject_GetAttrString(module.get(), "_table"));
    return checked(Py_BuildValue("(NN)", made_by.release(), state_of(self).release())).release();
  });
}

std::span<const char> letters_of(PyObject* bytes) {
  char* letters = nullptr;
  Py_ssize_t size = 0;
  checked(PyBytes_AsStringAndSize(bytes, &letters, &size));
  return {letters, static_cast<std::size_t>(size)};
}

std::vector<float> floats_of(PyObject* bytes) {
  const std::span<const char> letters = letters_of(bytes);
  std::vector<float> values(letters.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), letters.data(), values.size() * sizeof(float));
  return values;
}

Ref positions_of_state(PyObject* state) {
  if (state == Py_None) return Ref::borrowed(Py_None);
  PyObject *shape = nullptr, *real = nullptr, *bytes = nullptr;
  checked(PyArg_ParseTuple(state, "OOO", &shape, &real, &bytes) == 0 ? -1 : 0);
  GivenPositions given;
  given.real = real == Py_True;
  for (Py_ssize_t d = 0; d < PyTuple_Size(shape); ++d) {
    given.shape.push_back(integer_of(PyTuple_GetItem(shape, d), "shape"));
  }
  const std::span<const char> letters = letters_of(bytes);
  const std::size_t count = letters.size() / sizeof(double);
  given.integers.resize(given.real ? 0 : count);
  given.reals.resize(given.real ? count : 0);
  void* values = given.real ? static_cast<void*>(given.reals.data()) : given.integers.data();
  if (count > 0) std::memcpy(values, letters.data(), count * sizeof(double));
  return kept(given);
}

constexpr const char* table_doc =
    "Table(source, positions, length=None, *, angles=\"exact\", rounding=\"f32\")\n--\n\n"
    "A row of cos and sin for each token, float32. One table serves all layers and heads of a step.\n\n"
    "A table is not doubled rows as frameworks keep them: it has one column for each pair. from_doubled() reads "
    "those.\n\n"
    "Args:\n"
    "    source: a rotary.Rope, or rotary.Frequencies.\n"
    "    positions: of every token: an int, a range, a list, or an array of integers or floats. [tokens] or\n"
    "        [batch, tokens]; of a rope of several axes [tokens] (text: all axes the same), [axes, tokens] or\n"
    "        [axes, batch, tokens].\n"
    "    length: tokens in play, for ropes with Dynamic or LongRope scaling. None: the largest position + 1.\n"
    "    angles: \"exact\", the correctly rounded float32 at any position, or \"float32\", the steps of frameworks.\n"
    "    rounding: \"f32\", \"f16\" or \"bf16\": the type that the values are rounded to.\n\n"
    "Raises:\n"
    "    rotary.Error: PAIRING, SHAPE, SCALING, POSITION, LENGTH, VALUE.";

PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyGetSetDef attributes[] = {
    {"cos", get_cos, nullptr, "float32 of .shape: read-only, keeps the table", nullptr},
    {"sin", get_sin, nullptr, "float32 of .shape: read-only, keeps the table", nullptr},
    {"positions", get_positions, nullptr, "as they were given, int64 or float64; None of rows", nullptr},
    {"pairing", get_pairing, nullptr, "which two elements turn together", nullptr},
    {"rotary_dim", get_rotary_dim, nullptr, "elements that turn, 2 * pairs", nullptr},
    {"pairs", get_pairs, nullptr, "columns of cos and of sin", nullptr},
    {"tokens", get_tokens, nullptr, "rows of each batch row", nullptr},
    {"batch", get_batch, nullptr, "1: the rows serve any batch size", nullptr},
    {"shape", get_shape, nullptr, "(tokens, pairs), or (batch, tokens, pairs)", nullptr},
    {"_torch_cos", get_torch_cos, nullptr, nullptr, nullptr},
    {"_torch_sin", get_torch_sin, nullptr, nullptr, nullptr},
    {"_torch_copies", get_torch_copies, nullptr, nullptr, nullptr},
    {"_doubled", get_no_doubling, nullptr, nullptr, nullptr},
    {"__slots__", get_slots, nullptr, nullptr, nullptr},  // so torch.compile of torch 2.4 asks for the attributes
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

}  // namespace

Ref new_table(Table table, bool batched, Ref positions) {
  auto* type = reinterpret_cast<PyTypeObject*>(table_type);
  Ref made = checked(PyType_GenericAlloc(type, 0));
  TableObject& object = object_of(made.get());
  object.value = new std::shared_ptr<const Table>(std::make_shared<const Table>(std::move(table)));
  object.positions = positions.release();
  object.batched = batched;
  return made;
}

const Table* table_or_null(PyObject* object) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == table_type ? &value_of(object) : nullptr;
}

void refuse_table(PyObject* object, const char* operation) {
  raise_type_error("[" + std::string(operation) + "] table must be a rotary.Table but got " + type_name(object) +
                   ": make one with rotary.Table(rope, positions), or of rows with rotary.from_doubled (frameworks' " +
                   "doubled rows) or rotary.from_rows");
}

PyObject* table_from_state(PyObject*, PyObject* state) {
  return guarded([&]() -> PyObject* {
    PyObject *cos = nullptr, *sin = nullptr, *positions = nullptr, *batched = nullptr;
    const char* pairing = nullptr;
    int pairs = 0, batch = 1;
    if (PyArg_ParseTuple(state, "OOisiOO", &cos, &sin, &pairs, &pairing, &batch, &batched, &positions) == 0) {
      throw Raised{};
    }
    Table table(floats_of(cos), floats_of(sin), pairs, parse_pairing(pairing), batch);
    return new_table(std::move(table), batched == Py_True, positions_of_state(positions)).release();
  });
}

int add_table_type(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(table_doc)},
                         {Py_tp_new, slot(create)},
                         {Py_tp_dealloc, slot(free_table)},
                         {Py_tp_repr, slot(represent)},
                         {Py_tp_richcompare, slot(compare)},
                         {Py_tp_hash, slot(hash)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, attributes},
                         {0, nullptr}};
  constexpr unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE;
  PyType_Spec spec = {"rotary.Table", sizeof(TableObject), 0, flags, slots};
  if (table_type == nullptr) table_type = PyType_FromSpec(&spec);
  return table_type == nullptr ? -1 : PyModule_AddObjectRef(module, "Table", table_type);
}

}  // namespace rotary::python
