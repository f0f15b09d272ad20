// CPython's limited API of 3.10, and what the module's files share: references, errors, the GIL.
#pragma once

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030A0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>
#include <string_view>
#include <utility>

#include "rotary/error.h"

// Buffers came into the limited API with 3.11, as 3.10 already had them: the same functions, the same layout, the same
// slot number. Their declarations, for 3.10; the functions are looked up where a buffer is read (arrays.cpp).
#if Py_LIMITED_API + 0 < 0x030B0000
struct Py_buffer {
  void* buf;
  PyObject* obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  char* format;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  Py_ssize_t* suboffsets;
  void* internal;
};
#define Py_bf_getbuffer 1
#define PyBUF_WRITABLE 0x0001
#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
#define PyBUF_STRIDES (0x0010 | PyBUF_ND)
#define PyBUF_C_CONTIGUOUS (0x0020 | PyBUF_STRIDES)
#define PyBUF_F_CONTIGUOUS (0x0040 | PyBUF_STRIDES)
#define PyBUF_RECORDS_RO (PyBUF_STRIDES | PyBUF_FORMAT)
#endif

namespace rotary::python {

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
  static Ref borrowed(PyObject* object) noexcept {
    Py_XINCREF(object);
    return Ref(object);
  }
  PyObject* get() const noexcept { return object_; }
  PyObject* release() noexcept { return std::exchange(object_, nullptr); }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Thrown where a Python exception is set; guarded() passes it on.
struct Raised {};

// What a call of the C API gave, which is null where it raised.
inline Ref checked(PyObject* owned) {
  if (owned == nullptr) throw Raised{};
  return Ref(owned);
}
inline void checked(int status) {
  if (status < 0) throw Raised{};
}

[[noreturn]] void raise_type_error(const std::string& sentence);
// "[operation] rule but got value"
[[noreturn]] void fail(Code code, const char* operation, const std::string& sentence);

int add_error_type(PyObject* module);
void set_error(Code code, const char* sentence);  // sets rotary.Error with its code
void set_current_exception() noexcept;            // of the C++ exception that is being handled

// Runs body, which returns a new reference or throws.
template <class Body>
PyObject* guarded(const Body& body) noexcept {
  try {
    return body();
  } catch (...) {
    set_current_exception();
    return nullptr;
  }
}

// A function as the value of a PyType_Slot.
template <class Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

std::string text_of(PyObject* text, const char* what);  // of a str; TypeError names `what`
std::string_view view_of(PyObject* text, const char* what);
std::string type_name(PyObject* object);
std::string repr_of(PyObject* object);  // shortened
Ref new_text(std::string_view text);
std::int64_t integer_of(PyObject* number, const char* what);

// Without the GIL as long as it lives, if `large`.
class Unlocked {
 public:
  explicit Unlocked(bool large) noexcept : state_(large ? PyEval_SaveThread() : nullptr) {}
  ~Unlocked() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace rotary::python
