// The arguments of a METH_FASTCALL | METH_KEYWORDS function.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "python.h"

namespace rotary::python {

// `positional` of the names may be given by place, `required` must be given.
template <std::size_t count>
struct Signature {
  const char* function;
  std::size_t positional;
  std::size_t required;
  std::array<const char*, count> names;
  mutable std::array<PyObject*, count> interned = {};

  // Borrowed; null where not given. Raises TypeError.
  std::array<PyObject*, count> read(PyObject* const* arguments, Py_ssize_t given, PyObject* words) const {
    std::array<PyObject*, count> values{};
    if (static_cast<std::size_t>(given) > positional) {
      raise_type_error(std::string(function) + "() takes at most " + std::to_string(positional) +
                       " positional arguments but got " + std::to_string(given));
    }
    for (Py_ssize_t i = 0; i < given; ++i) values[static_cast<std::size_t>(i)] = arguments[i];
    const Py_ssize_t named = words == nullptr ? 0 : PyTuple_Size(words);
    for (Py_ssize_t i = 0; i < named; ++i) {
      PyObject* word = PyTuple_GetItem(words, i);
      const std::size_t at = place_of(word);
      if (at == count) {
        raise_type_error(std::string(function) + "() got an unexpected keyword argument '" +
                         text_of(word, "a keyword") + "'");
      }
      if (values[at] != nullptr) {
        raise_type_error(std::string(function) + "() got several values for '" + names[at] + "'");
      }
      values[at] = arguments[given + i];
    }
    for (std::size_t i = 0; i < required; ++i) {
      if (values[i] == nullptr) raise_type_error(std::string(function) + "() needs the argument '" + names[i] + "'");
    }
    for (std::size_t i = required; i < count; ++i) {
      if (values[i] == Py_None) values[i] = nullptr;  // every default is None or stands for it
    }
    return values;
  }

 private:
  std::size_t place_of(PyObject* word) const {
    for (std::size_t i = 0; i < count; ++i) {  // almost always the same object
      if (interned[i] == nullptr) interned[i] = PyUnicode_InternFromString(names[i]);
      if (interned[i] == word) return i;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (PyUnicode_CompareWithASCIIString(word, names[i]) == 0) return i;
    }
    return count;
  }
};

using FastFunction = PyObject* (*)(PyObject* self, PyObject* const* arguments, Py_ssize_t given, PyObject* words);

inline PyMethodDef fast(const char* name, FastFunction function, const char* doc) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL | METH_KEYWORDS,
          doc};
}

}  // namespace rotary::python
