// rotary.Error, C++ exceptions as Python's, and conversions of text and integers.
#include <exception>
#include <new>

#include "python.h"

namespace rotary::python {

namespace {

PyObject* the_error = nullptr;

constexpr const char* error_doc =
    "What is wrong, in one sentence, \"[operation] rule but got value\", and in a word that keeps its meaning, code:\n"
    "\"SHAPE\", \"CONFIG_KEY\" (docs/errors.md lists them).";

// Sets rotary.Error with its code.
void set_error(Code code, std::string_view sentence) {
  Ref text(PyUnicode_DecodeUTF8(sentence.data(), static_cast<Py_ssize_t>(sentence.size()), "replace"));
  if (!text) return;
  Ref error(PyObject_CallFunctionObjArgs(the_error, text.get(), nullptr));
  Ref word(PyUnicode_FromString(name(code)));
  if (!error || !word || PyObject_SetAttrString(error.get(), "code", word.get()) < 0) return;
  PyErr_SetObject(the_error, error.get());
}

}  // namespace

void add_error_type(PyObject* module) {
  if (the_error == nullptr) {
    const Ref members = checked(Py_BuildValue("{s:s}", "code", "INTERNAL"));
    the_error =
        checked(PyErr_NewExceptionWithDoc("rotary.Error", error_doc, PyExc_ValueError, members.get())).release();
  }
  checked(PyModule_AddObjectRef(module, "Error", the_error));
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

void refuse_word(const char* name, const char* operation, PyObject* word) {
  const Ref check = module_function("rotary._words", "check_word");
  checked(PyObject_CallFunction(check.get(), "ssO", operation, name, word));
  fail(Code::INTERNAL, operation, name, " may be what this module does not take");
}

Ref module_function(const char* module_name, const char* name) {
  const Ref module = checked(PyImport_ImportModule(module_name));
  return checked(PyObject_GetAttrString(module.get(), name));
}

Ref attribute_or_null(PyObject* object, const char* name) { return attribute_or_null(object, new_text(name).get()); }

Ref attribute_or_null(PyObject* object, PyObject* name) {
  Ref found(PyObject_GetAttr(object, name));
  if (!found && PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw Raised{};
  if (!found) PyErr_Clear();
  return found;
}

std::string_view view_of(PyObject* text, const char* what) {
  if (PyUnicode_Check(text) == 0) {
    raise_type_error(what, " must be a str but got ", type_name(text));
  }
  Py_ssize_t size = 0;
  const char* letters = PyUnicode_AsUTF8AndSize(text, &size);
  if (letters == nullptr) {
    PyErr_Clear();
    fail(Code::VALUE, what, "the text must be one that UTF-8 can hold but got ", repr_of(text));
  }
  return {letters, static_cast<std::size_t>(size)};
}

std::string string_of(PyObject* text, const char* what) { return std::string(view_of(text, what)); }

std::string type_name(PyObject* object) {
  const Ref name = checked(PyType_GetName(Py_TYPE(object)));
  return string_of(name.get(), "__name__");
}

std::string repr_of(PyObject* object) {
  const Ref text = checked(PyObject_Repr(object));
  std::string letters = string_of(text.get(), "repr");
  constexpr std::size_t most = 60;
  if (letters.size() > most) letters = letters.substr(0, most) + "...";
  return letters;
}

Ref new_text(std::string_view text) {
  return checked(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

std::int64_t integer_of(PyObject* number, const char* what) {
  Ref index = Ref::borrowed(number);
  if (PyLong_Check(number) == 0) index = Ref(PyNumber_Index(number));
  if (!index) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw Raised{};
    PyErr_Clear();
    raise_type_error(what, " must be an int but got ", type_name(number));
  }
  const long long value = PyLong_AsLongLong(index.get());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw Error(Code::VALUE, what, "the number must fit 64 bits but got " + repr_of(number));
  }
  return value;
}

int int_of(PyObject* number, const char* what) {
  const std::int64_t value = integer_of(number, what);
  if (value != static_cast<int>(value)) fail(Code::VALUE, what, "the number must fit 32 bits but got ", value);
  return static_cast<int>(value);
}

bool is_true(PyObject* object) {
  const int truth = PyObject_IsTrue(object);
  checked(truth);
  return truth == 1;
}

}  // namespace rotary::python
