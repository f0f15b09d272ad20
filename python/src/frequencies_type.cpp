#include "types.h"

#include <cstring>
#include <string>
#include <vector>

#include "arguments.h"
#include "memory.h"
#include "values.h"

namespace rotary::python {

namespace {

struct FrequenciesObject {
  PyObject_HEAD Frequencies* value;
};

PyObject* frequencies_type = nullptr;

const Frequencies& value_of(PyObject* self) { return *reinterpret_cast<FrequenciesObject*>(self)->value; }

template <class Value>
Ref bytes_of(const std::vector<Value>& values) {
  return checked(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(values.data()),
                                           static_cast<Py_ssize_t>(values.size() * sizeof(Value))));
}

template <class Value>
std::vector<Value> values_of(PyObject* bytes) {
  char* letters = nullptr;
  Py_ssize_t size = 0;
  checked(PyBytes_AsStringAndSize(bytes, &letters, &size));
  std::vector<Value> values(static_cast<std::size_t>(size) / sizeof(Value));
  if (!values.empty()) std::memcpy(values.data(), letters, values.size() * sizeof(Value));
  return values;
}

Ref state_of(PyObject* self) {
  const Frequencies& value = value_of(self);
  return checked(Py_BuildValue("(NsNdON)", bytes_of(value.inv_freq).release(), name(value.pairing),
                               bytes_of(value.axis).release(), value.attention_factor,
                               value.clockwise ? Py_True : Py_False, bytes_of(value.inv_freq_float32).release()));
}

PyObject* create(PyTypeObject*, PyObject* positional, PyObject* words) {
  return guarded([&]() -> PyObject* {
    PyObject *inv_freq = nullptr, *pairing = Py_None, *axis = nullptr, *float32 = nullptr;
    double attention_factor = 1;
    int clockwise = 0;
    const char* const names[] = {"inv_freq",         "pairing", "attention_factor", "axis", "clockwise",
                                 "inv_freq_float32", nullptr};
    const int read = PyArg_ParseTupleAndKeywords(positional, words, "O|$OdOpO:Frequencies", const_cast<char**>(names),
                                                 &inv_freq, &pairing, &attention_factor, &axis, &clockwise, &float32);
    if (read == 0) throw Raised{};
    Frequencies made;
    made.inv_freq = doubles_of(inv_freq, "inv_freq");
    if (pairing == Py_None)
      fail(Code::PAIRING, "Frequencies", "pairing must be half, interleaved or interleaved_to_half but is not given");
    made.pairing = parse_pairing(view_of(pairing, "pairing"));
    made.attention_factor = attention_factor;
    if (axis != nullptr && axis != Py_None) made.axis = axes_of(axis, "axis");
    made.clockwise = clockwise != 0;
    if (float32 != nullptr && float32 != Py_None) {
      for (const double value : doubles_of(float32, "inv_freq_float32")) {
        made.inv_freq_float32.push_back(static_cast<float>(value));
      }
    }
    if ((!made.axis.empty() && made.axis.size() != made.inv_freq.size()) ||
        (!made.inv_freq_float32.empty() && made.inv_freq_float32.size() != made.inv_freq.size())) {
      fail(Code::SHAPE, "Frequencies",
           "axis and inv_freq_float32 must have one value for each of the " + std::to_string(made.inv_freq.size()) +
               " pairs");
    }
    return new_frequencies(std::move(made)).release();
  });
}

void free_frequencies(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<FrequenciesObject*>(self)->value;
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject* get_inv_freq(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const std::vector<double>& values = value_of(self).inv_freq;
    const std::int64_t shape[] = {static_cast<std::int64_t>(values.size())};
    return new_array_view(self, values.data(), ElementType::f64, shape).release();
  });
}
PyObject* get_attention_factor(PyObject* self, void*) { return PyFloat_FromDouble(value_of(self).attention_factor); }
PyObject* get_pairing(PyObject* self, void*) { return PyUnicode_FromString(name(value_of(self).pairing)); }
PyObject* get_rotary_dim(PyObject* self, void*) { return PyLong_FromSize_t(2 * value_of(self).inv_freq.size()); }
PyObject* get_axes(PyObject* self, void*) { return PyLong_FromLong(value_of(self).axes()); }
PyObject* get_clockwise(PyObject* self, void*) { return PyBool_FromLong(value_of(self).clockwise ? 1 : 0); }
PyObject* get_axis(PyObject* self, void*) {
  return guarded([&]() -> PyObject* { return tuple_of(value_of(self).axis).release(); });
}

PyObject* represent(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Frequencies& value = value_of(self);
    const Ref factor = checked(PyFloat_FromDouble(value.attention_factor));
    return checked(PyUnicode_FromFormat("<rotary.Frequencies of %zu pairs, %s, attention_factor %S>",
                                        value.inv_freq.size(), name(value.pairing), factor.get()))
        .release();
  });
}

PyObject* compare(PyObject* self, PyObject* other, int operation) {
  return compare_states(self, other, operation, state_of);
}
Py_hash_t hash(PyObject* self) { return hash_state(self, state_of); }

PyObject* reduce(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Ref module = checked(PyImport_ImportModule("rotary._core"));
    Ref make = checked(PyObject_GetAttrString(module.get(), "_frequencies"));
    return checked(Py_BuildValue("(NN)", make.release(), state_of(self).release())).release();
  });
}

constexpr const char* frequencies_doc =
    "Frequencies(inv_freq, *, pairing, attention_factor=1.0, axis=None, clockwise=False, inv_freq_float32=None)\n--\n\n"
    "The angular speed of every pair.\n\n"
    "Usually made by rotary.frequencies(rope). By hand, for frequencies that are known otherwise, as learned ones:\n\n"
    "Args:\n"
    "    inv_freq: radians per position of each pair, [pairs]; 0: the pair does not turn.\n"
    "    pairing: \"half\", \"interleaved\" or \"interleaved_to_half\". No default.\n"
    "    attention_factor: multiplies cos and sin.\n"
    "    axis: which coordinate of a position drives each pair, [pairs]. None: all the first.\n"
    "    clockwise: turns by minus the angle.\n"
    "    inv_freq_float32: what frameworks computed in float32, for Table(..., angles=\"float32\").\n\n"
    "Raises:\n"
    "    rotary.Error: PAIRING, SHAPE.";

PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyGetSetDef attributes[] = {
    {"inv_freq", get_inv_freq, nullptr, "float64 [pairs], radians per position: read-only", nullptr},
    {"attention_factor", get_attention_factor, nullptr, "multiplies cos and sin", nullptr},
    {"pairing", get_pairing, nullptr, "which two elements turn together", nullptr},
    {"rotary_dim", get_rotary_dim, nullptr, "elements that turn: two for each pair", nullptr},
    {"axis", get_axis, nullptr, "which coordinate of a position drives each pair; empty: all the first", nullptr},
    {"axes", get_axes, nullptr, "how many coordinates a position has", nullptr},
    {"clockwise", get_clockwise, nullptr, "whether it turns by minus the angle", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

}  // namespace

PyObject* compare_states(PyObject* self, PyObject* other, int operation, Ref (*state)(PyObject*)) {
  if ((operation != Py_EQ && operation != Py_NE) || Py_TYPE(self) != Py_TYPE(other)) {
    return Ref::borrowed(Py_NotImplemented).release();
  }
  return guarded([&]() -> PyObject* { return PyObject_RichCompare(state(self).get(), state(other).get(), operation); });
}

Py_hash_t hash_state(PyObject* self, Ref (*state)(PyObject*)) {
  try {
    return PyObject_Hash(state(self).get());
  } catch (...) {
    set_current_exception();
    return -1;
  }
}

const Frequencies* frequencies_in(PyObject* object) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == frequencies_type ? &value_of(object) : nullptr;
}

Ref new_frequencies(Frequencies frequencies) {
  auto* type = reinterpret_cast<PyTypeObject*>(frequencies_type);
  Ref made = checked(PyType_GenericAlloc(type, 0));
  reinterpret_cast<FrequenciesObject*>(made.get())->value = new Frequencies(std::move(frequencies));
  return made;
}

PyObject* frequencies_function(PyObject*, PyObject* const* arguments, Py_ssize_t given, PyObject* words) {
  static const Signature<2> signature{"frequencies", 2, 1, {"rope", "length"}};
  return guarded([&]() -> PyObject* {
    const auto [rope, length] = signature.read(arguments, given, words);
    if (!is_rope(rope)) raise_type_error("frequencies() takes a rotary.Rope but got " + type_name(rope));
    const Rope value = rope_from(rope);
    if (length == nullptr) return new_frequencies(frequencies(value)).release();
    return new_frequencies(frequencies(value, integer_of(length, "length"))).release();
  });
}

PyObject* frequencies_from_state(PyObject*, PyObject* state) {
  return guarded([&]() -> PyObject* {
    PyObject *inv_freq = nullptr, *axis = nullptr, *float32 = nullptr, *clockwise = nullptr;
    const char* pairing = nullptr;
    Frequencies made;
    if (PyArg_ParseTuple(state, "OsOdOO", &inv_freq, &pairing, &axis, &made.attention_factor, &clockwise, &float32) ==
        0) {
      throw Raised{};
    }
    made.inv_freq = values_of<double>(inv_freq);
    made.pairing = parse_pairing(pairing);
    made.axis = values_of<std::uint8_t>(axis);
    made.clockwise = clockwise == Py_True;
    made.inv_freq_float32 = values_of<float>(float32);
    return new_frequencies(std::move(made)).release();
  });
}

int add_frequencies_type(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(frequencies_doc)},
                         {Py_tp_new, slot(create)},
                         {Py_tp_dealloc, slot(free_frequencies)},
                         {Py_tp_repr, slot(represent)},
                         {Py_tp_richcompare, slot(compare)},
                         {Py_tp_hash, slot(hash)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, attributes},
                         {0, nullptr}};
  constexpr unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE;
  PyType_Spec spec = {"rotary.Frequencies", sizeof(FrequenciesObject), 0, flags, slots};
  if (frequencies_type == nullptr) frequencies_type = PyType_FromSpec(&spec);
  return frequencies_type == nullptr ? -1 : PyModule_AddObjectRef(module, "Frequencies", frequencies_type);
}

}  // namespace rotary::python
