// Somebody's array, seen without a copy: numpy's array struct, DLPack's C exchange API, __dlpack__, the buffer
// protocol; whose array an object is, and new arrays of that kind.
#pragma once

#include <memory>
#include <optional>

#include "dlpack.h"
#include "files/tensors/formats.h"
#include "python.h"
#include "rotary/tensors.h"

namespace rotary::python {

inline constexpr int most_dimensions = 8;

// Whose array it is, for the making of a result; rotary._memory.kind_of has the same numbers.
enum class Kind : std::uint8_t { numpy, torch, jax, traced, other };  // traced: a JAX array without numbers

// Where the elements are: an array elsewhere is refused.
enum class Memory : std::uint8_t { cpu, cuda };

class ArrayView {
 public:
  // name: of the argument, in errors. Throws Error DTYPE, DEVICE, SHAPE (too many dimensions); TypeError for what is
  // no array, TORCH for a tensor whose memory is not all of it (a gradient to record, a negative view) if `guards`.
  ArrayView(PyObject* object, const char* name, bool guards = true, Memory memory = Memory::cpu);
  ArrayView(const ArrayView&) = delete;
  ArrayView& operator=(const ArrayView&) = delete;

  void* data = nullptr;
  ElementType type = ElementType::f32;
  int ndim = 0;
  bool read_only = false;
  Kind kind = Kind::other;
  std::array<std::int64_t, most_dimensions> shape{};
  std::array<std::int64_t, most_dimensions> strides{};  // in bytes

  std::int64_t elements() const noexcept;
  std::int64_t bytes() const noexcept { return elements() * static_cast<std::int64_t>(bits_of(type) / 8); }
  bool is_contiguous() const noexcept;  // row-major, without gaps
  std::string shape_text() const;       // "[2, 5, 64]"

 private:
  bool from_numpy(PyObject* object);
  bool from_array_struct(PyObject* object);
  bool from_exchange(PyObject* object);
  bool from_capsule(PyObject* object);
  bool from_buffer(PyObject* object);
  void take(const dlpack::Tensor& tensor);
  void check_dimensions(int count) const;
  // steps: strides, in units of so many bytes; null: row-major, as of a ctypes array. type is set before.
  template <class Integer>
  void set_dimensions(int count, const Integer* sizes, const Integer* steps, std::int64_t unit) {
    check_dimensions(count);
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

  struct Release {
    void operator()(dlpack::ManagedVersioned* tensor) const {
      if (tensor->deleter != nullptr) tensor->deleter(tensor);
    }
  };
  const char* name_;
  Memory memory_;
  Ref owner_;
  std::unique_ptr<dlpack::ManagedVersioned, Release> managed_;
  std::optional<Buffer> buffer_;
};

// visit(place) for each element in row-major order.
template <class Visit>
void for_each_offset(const ArrayView& view, Visit visit) {
  std::array<std::int64_t, most_dimensions> at{};
  const std::int64_t count = view.elements();
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(static_cast<const char*>(view.data) + offset);
    for (int d = view.ndim - 1; d >= 0; --d) {
      const auto axis = static_cast<std::size_t>(d);
      offset += view.strides[axis];
      if (++at[axis] < view.shape[axis]) break;
      offset -= view.strides[axis] * view.shape[axis];
      at[axis] = 0;
    }
  }
}

// kind: 'f', 'i', 'u' or 'b', as numpy's; size in bytes. Empty for another.
std::optional<ElementType> element_type_of(char kind, std::int64_t size);
[[noreturn]] void refuse_type(const char* name, const std::string& got);

std::string type_word(ElementType);  // "float64", as Python's libraries say it

using files::is_float;
bool is_integer(ElementType) noexcept;
double real_at(const void* place, ElementType type);           // of any number type
std::int64_t integer_at(const void* place, ElementType type);  // of an integer type; throws POSITION beyond int64

// A new array of the same kind, element type and shape, not yet written; of JAX and of other libraries one of numpy.
// Throws DTYPE where numpy is not installed, or has no such type.
Ref empty_like(PyObject* object, const ArrayView& view);
Ref finished(Ref made, Kind kind);  // what the caller is given of it

}  // namespace rotary::python
