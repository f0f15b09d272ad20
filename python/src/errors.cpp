// rotary.Error, and the translation of C++ exceptions.
#include <exception>
#include <new>

#include "python.h"

namespace rotary::python {

namespace {

PyObject* the_error = nullptr;

constexpr const char* error_doc =
    "What is wrong, in one sentence: \"[operation] rule but got value\".\n\n"
    "Attributes:\n"
    "    code: one word that keeps its meaning, as \"SHAPE\" or \"CONFIG_KEY\" (docs/errors.md lists them).";

}  // namespace

int add_error_type(PyObject* module) {
  if (the_error == nullptr) {
    Ref members(Py_BuildValue("{s:s}", "code", "INTERNAL"));
    if (!members) return -1;
    the_error = PyErr_NewExceptionWithDoc("rotary.Error", error_doc, PyExc_ValueError, members.get());
    if (the_error == nullptr) return -1;
  }
  return PyModule_AddObjectRef(module, "Error", the_error);
}

void set_error(Code code, const char* sentence) {
  Ref text(PyUnicode_DecodeUTF8(sentence, static_cast<Py_ssize_t>(std::string_view(sentence).size()), "replace"));
  if (!text) return;
  Ref error(PyObject_CallFunctionObjArgs(the_error, text.get(), nullptr));
  Ref word(PyUnicode_FromString(name(code)));
  if (!error || !word || PyObject_SetAttrString(error.get(), "code", word.get()) < 0) return;
  PyErr_SetObject(the_error, error.get());
}

void set_current_exception() noexcept {
  try {
    throw;
  } catch (const Raised&) {
  } catch (const Error& error) {
    set_error(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    set_error(Code::INTERNAL, error.what());
  } catch (...) {
    set_error(Code::INTERNAL, "an exception without a sentence");
  }
}

void raise_type_error(const std::string& sentence) {
  PyErr_SetString(PyExc_TypeError, sentence.c_str());
  throw Raised{};
}

void fail(Code code, const char* operation, const std::string& sentence) {
  throw Error(code, "[" + std::string(operation) + "] " + sentence);
}

std::string_view view_of(PyObject* text, const char* what) {
  if (PyUnicode_Check(text) == 0) {
    raise_type_error(std::string(what) + " must be a str but got " + type_name(text));
  }
  Py_ssize_t size = 0;
  const char* letters = PyUnicode_AsUTF8AndSize(text, &size);
  if (letters == nullptr) throw Raised{};
  return {letters, static_cast<std::size_t>(size)};
}

std::string text_of(PyObject* text, const char* what) { return std::string(view_of(text, what)); }

std::string type_name(PyObject* object) {
  const Ref type = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__name__"));
  return text_of(type.get(), "__name__");
}

std::string repr_of(PyObject* object) {
  const Ref text = checked(PyObject_Repr(object));
  std::string letters = text_of(text.get(), "repr");
  constexpr std::size_t most = 60;
  if (letters.size() > most) letters = letters.substr(0, most) + "...";
  return letters;
}

Ref new_text(std::string_view text) {
  return checked(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

std::int64_t integer_of(PyObject* number, const char* what) {
  const Ref index(PyNumber_Index(number));
  if (!index) {
    PyErr_Clear();
    raise_type_error(std::string(what) + " must be an int but got " + type_name(number));
  }
  const long long value = PyLong_AsLongLong(index.get());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw Error(Code::VALUE, "[" + std::string(what) + "] the number must fit 64 bits but got " + repr_of(number));
  }
  return value;
}

}  // namespace rotary::python
