// CPython's limited API of 3.11, and helpers of the module's files: references, arguments, errors, the GIL.
#pragma once

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "rotary/error.h"

namespace rotary::python {

// The concatenated parts: texts and integers.
inline std::string letters_of(std::string_view text) { return std::string(text); }
inline std::string letters_of(std::integral auto number) { return std::to_string(number); }
template <class... Parts>
std::string sentence_of(const Parts&... parts) {
  return (letters_of(parts) + ... + std::string());
}

// Throws Error(code, operation, rule), with the rule in parts.
template <class... Parts>
[[noreturn]] void fail(Code code, std::string_view operation, const Parts&... rule) {
  throw Error(code, operation, sentence_of(rule...));
}

// An owned reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) noexcept : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }
  static Ref borrowed(PyObject* object) noexcept { return Ref(Py_XNewRef(object)); }
  PyObject* get() const noexcept { return object_; }
  PyObject* release() noexcept { return std::exchange(object_, nullptr); }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Thrown if a Python exception is set; guarded() passes it on.
struct Raised {};

// Checks the result of a call of the C API, which is null or negative if the call raised.
inline Ref checked(PyObject* owned) {
  if (owned == nullptr) throw Raised{};
  return Ref(owned);
}
inline void checked(int status) {
  if (status < 0) throw Raised{};
}

// The memory of an object by the buffer protocol. It stays in place during the lifetime of this.
class Buffer {
 public:
  Buffer(PyObject* object, int flags) { checked(PyObject_GetBuffer(object, &view_, flags)); }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  const Py_buffer* operator->() const noexcept { return &view_; }

 private:
  Py_buffer view_{};
};

[[noreturn]] void raise_type_error(const std::string& sentence);
template <class... Parts>
[[noreturn]] void raise_type_error(const Parts&... parts) {
  raise_type_error(sentence_of(parts...));
}

// Raises the error of check_word in rotary/_words.py for the word.
[[noreturn]] void refuse_word(const char* name, const char* operation, PyObject* word);

void add_error_type(PyObject* module);
void set_current_exception() noexcept;  // for the C++ exception that is being handled

// Runs body, whose errors name the user's function.
template <class Body>
auto named(const char* operation, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(error.code(), operation, error.rule(), error.about());
  }
}

// Runs body, which returns a new reference or throws.
template <class Body>
PyObject* guarded(const Body& body) noexcept {
  try {
    return body().release();
  } catch (...) {
    set_current_exception();
    return nullptr;
  }
}
inline Ref none() { return Ref::borrowed(Py_None); }

// A function as the value of a PyType_Slot.
template <class Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

// The method of that name. The function takes objects, all by position, and returns a new one.
template <auto function>
PyMethodDef method(const char* name, const char* doc = nullptr) {
  return [&]<class... Objects>(Ref (*)(Objects...)) -> PyMethodDef {
    auto* call = +[](PyObject*, PyObject* const* given, Py_ssize_t count) {
      return guarded([&] {
        if (count != sizeof...(Objects)) raise_type_error("rotary._core: the number of arguments is wrong");
        return [&]<std::size_t... at>(std::index_sequence<at...>) {
          return function(static_cast<Objects>(given[at])...);
        }
        (std::index_sequence_for<Objects...>());
      });
    };
    return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)), METH_FASTCALL, doc};
  }(function);
}
inline PyObject* or_null(PyObject* given) { return given == Py_None ? nullptr : given; }

Ref module_function(const char* module_name, const char* name);
Ref attribute_or_null(PyObject* object, PyObject* name);  // null if the object has none
Ref attribute_or_null(PyObject* object, const char* name);
std::string string_of(PyObject* text, const char* what);  // a str's text; TypeError names `what`
std::string_view view_of(PyObject* text, const char* what);
std::string type_name(PyObject* object);
std::string repr_of(PyObject* object);  // shortened
Ref new_text(std::string_view text);
std::int64_t integer_of(PyObject* number, const char* what);
int int_of(PyObject* number, const char* what);  // VALUE for more than 32 bits
bool is_true(PyObject* object);

// The value of a word, which is the argument of that name; calls refuse_word for unknown words.
template <class Value>
Value one_of(const char* operation, PyObject* word, const char* name,
             std::initializer_list<std::pair<std::string_view, Value>> known) {
  const std::string_view text = view_of(word, name);
  for (const auto& [letters, value] : known) {
    if (text == letters) return value;
  }
  refuse_word(name, operation, word);
}

// PyEval_RestoreThread, in which a thread that outlives Python waits for ever (locking.cpp).
void lock_again(PyThreadState* state) noexcept;

// Releases the GIL during its lifetime, if `large`.
class Unlocked {
 public:
  explicit Unlocked(bool large) noexcept : large_(large) {
    if (large_) released_ = PyEval_SaveThread();
  }
  ~Unlocked() {
    if (large_) lock_again(std::exchange(released_, nullptr));
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  // Call it between the steps of a long call: throws Raised if a signal asks Python to end the call. Does nothing in
  // other threads than the call's.
  static void heed_signals();

 private:
  static thread_local PyThreadState* released_;

  bool large_;
};
// The result of body, which runs without the GIL.
template <class Body>
auto unlocked(const Body& body, bool large = true) {
  const Unlocked without(large);
  return body();
}

}  // namespace rotary::python
