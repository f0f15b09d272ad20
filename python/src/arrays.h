// Views of the caller's arrays without a copy, by the buffer protocol, DLPack's C exchange API or __dlpack__; and new
// arrays of the same library.
#pragma once

#include <cstring>
#include <optional>

#include "python.h"
#include "rotary/tensors.h"

namespace rotary::python {

// ---- the structs of DLPack 1.3 (https://dmlc.github.io/dlpack/latest/c_api.html) ----

namespace dlpack {

struct Version {
  std::uint32_t major, minor;
};
struct Device {
  std::int32_t type, id;
};
struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null in old versions means contiguous
  std::uint64_t byte_offset;
};
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  std::uint64_t flags;
  Tensor tensor;
};
inline constexpr std::uint64_t read_only = 1;

inline constexpr std::int32_t cpu = 1, pinned_by_cuda = 3, pinned_by_rocm = 11;  // memory that the CPU reads
inline constexpr std::uint8_t code_int = 0, code_uint = 1, code_float = 2, code_bfloat = 4, code_complex = 5;
inline constexpr std::uint8_t code_bool = 6;

// type(x).__dlpack_c_exchange_api__ is a capsule "dlpack_exchange_api" of this struct, which has more members.
struct ExchangeApi {
  Version version;
  ExchangeApi* older;
  void *allocate, *managed_from_object, *managed_to_object;
  int (*tensor_from_object)(void* object, Tensor* out);  // may be null; the result owns nothing
};

}  // namespace dlpack

// ---- an array ----

inline constexpr int most_dimensions = 8;

// The library of an array and of a result. rotary._memory.kind_of has the same numbers.
enum class Kind : std::uint8_t { numpy, torch, jax, traced, other };  // traced: a JAX array without numbers

class ArrayView {
 public:
  // name: the argument's name in errors. Throws DTYPE, DEVICE, SHAPE (too many dimensions), TypeError if the object is
  // no array, and with `guards` TORCH for a tensor whose memory is not enough (a gradient to record, a negative view).
  ArrayView(PyObject* object, const char* name, bool guards = true);
  ArrayView(const ArrayView&) = delete;
  ArrayView& operator=(const ArrayView&) = delete;

  static Kind kind_of(PyObject* object);

  void* data = nullptr;
  ElementType type = ElementType::f32;
  int ndim = 0;
  bool read_only = false;
  Kind kind = Kind::other;
  std::array<std::int64_t, most_dimensions> shape{};
  std::array<std::int64_t, most_dimensions> strides{};  // in bytes

  std::int64_t columns() const noexcept { return ndim == 0 ? 1 : shape[static_cast<std::size_t>(ndim - 1)]; }
  std::int64_t column_step() const noexcept { return ndim == 0 ? 0 : strides[static_cast<std::size_t>(ndim - 1)]; }
  std::int64_t elements() const noexcept;
  std::int64_t bytes() const noexcept { return elements() * static_cast<std::int64_t>(bits_of(type) / 8); }
  bool is_contiguous() const noexcept;  // row-major, without gaps
  std::string shape_text() const;       // "[2, 5, 64]"

 private:
  bool from_numpy(PyObject* object);
  bool from_exchange(PyObject* object);
  bool from_capsule(PyObject* object);
  bool from_buffer(PyObject* object);
  void take(const dlpack::Tensor& tensor);
  // steps: the strides in units of `unit` bytes; null for row-major. type must be set before.
  template <class Integer>
  void set_dimensions(int count, const Integer* sizes, const Integer* steps, std::int64_t unit) {
    if (count > most_dimensions) fail(Code::SHAPE, name_, "an array must have at most 8 dimensions but got ", count);
    ndim = count;
    std::int64_t run = bits_of(type) / 8;
    for (int d = count - 1; d >= 0; --d) {
      const auto axis = static_cast<std::size_t>(d);
      shape[axis] = sizes[d];
      strides[axis] = steps == nullptr ? run : steps[d] * unit;
      run *= shape[axis];
    }
  }
  void check_guards(PyObject* object) const;

  const char* name_;
  Ref owner_;
  std::optional<Buffer> buffer_;
};

// Calls visit(row) with the first byte of each row of the last dimension, in row-major order.
template <class Visit>
void for_each_row(const ArrayView& view, const Visit& visit) {
  std::array<std::int64_t, most_dimensions> at{};
  const auto* row = static_cast<const char*>(view.data);
  for (std::int64_t left = view.elements(); left > 0; left -= view.columns()) {
    visit(row);
    for (int d = view.ndim - 2; d >= 0; --d) {
      const auto axis = static_cast<std::size_t>(d);
      row += view.strides[axis];
      if (++at[axis] < view.shape[axis]) break;
      row -= view.strides[axis] * view.shape[axis];
      at[axis] = 0;
    }
  }
}

// Calls body(T()) for the type T of the elements: a C++ number, f16 or bf16; std::uint8_t for bools.
template <class Body>
void with_type_of(const ArrayView& view, const Body& body) {
  const ElementType type = view.type == ElementType::boolean ? ElementType::u8 : view.type;
  const auto one = [&]<class T>(T none) {
    if (type == detail::element_of(&none)) body(none);
  };
  const auto each = [&](auto... none) { (one(none), ...); };
  each(float(), double(), f16(), bf16(), std::int8_t(), std::int16_t(), std::int32_t(), std::int64_t(), std::uint8_t(),
       std::uint16_t(), std::uint32_t(), std::uint64_t());
}

// Calls visit(value) for each element in row-major order.
template <class Visit>
void for_each_element(const ArrayView& view, const Visit& visit) {
  with_type_of(view, [&, columns = view.columns(), step = view.column_step()]<class T>(T) {
    for_each_row(view, [&](const char* place) {
      for (std::int64_t i = 0; i < columns; ++i, place += step) {
        T element;
        std::memcpy(&element, place, sizeof element);
        visit(element);
      }
    });
  });
}
double real(auto element) { return static_cast<double>(element); }
inline double real(f16 element) { return static_cast<double>(to_float(element)); }
inline double real(bf16 element) { return static_cast<double>(to_float(element)); }

std::string type_word(ElementType);  // "float64", as in Python's libraries

// A new uninitialised array of the same library, element type and shape; of numpy for JAX and other libraries.
// Throws DTYPE if numpy is not installed, or has no such type.
Ref empty_like(PyObject* object, const ArrayView& view);
Ref finished(Ref array, Kind kind);  // the array that empty_like made, as one of the library `kind`

}  // namespace rotary::python
