// Tensors in files: safetensors and npy. Link rotary_files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"

namespace rotary {

// The element types of safetensors.
enum class ElementType : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};
ROTARY_API const char* name(ElementType) noexcept;                 // "BOOL", "F4", ..., "U64"
ROTARY_API ElementType parse_element_type(std::string_view name);  // throws DTYPE
ROTARY_API unsigned bits_of(ElementType) noexcept;
ROTARY_API std::optional<DType> dtype_of(ElementType) noexcept;  // f32, f16, bf16 only
ROTARY_API bool is_float(ElementType) noexcept;                  // f64, f32, f16, bf16
ROTARY_API ElementType element_type(DType) noexcept;

struct TensorInfo {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
  ROTARY_API std::int64_t elements() const noexcept;
};

struct Tensor;

namespace detail {
// The element type that Tensor::as<T>() reads, for a pointer to T.
constexpr ElementType element_of(const float*) { return ElementType::f32; }
constexpr ElementType element_of(const f16*) { return ElementType::f16; }
constexpr ElementType element_of(const bf16*) { return ElementType::bf16; }
constexpr ElementType element_of(const double*) { return ElementType::f64; }
constexpr ElementType element_of(const std::int8_t*) { return ElementType::i8; }
constexpr ElementType element_of(const std::int16_t*) { return ElementType::i16; }
constexpr ElementType element_of(const std::int32_t*) { return ElementType::i32; }
constexpr ElementType element_of(const std::int64_t*) { return ElementType::i64; }
constexpr ElementType element_of(const std::uint8_t*) { return ElementType::u8; }
constexpr ElementType element_of(const std::uint16_t*) { return ElementType::u16; }
constexpr ElementType element_of(const std::uint32_t*) { return ElementType::u32; }
constexpr ElementType element_of(const std::uint64_t*) { return ElementType::u64; }
template <class T>
concept TensorElement = requires(T* elements) {
  element_of(elements);
};
ROTARY_API void check_elements(const Tensor&, ElementType);
}  // namespace detail

// A tensor and its elements, row-major and little-endian.
struct Tensor : TensorInfo {
  std::vector<std::byte> data;

  // A view of the elements as float, f16, bf16, double or an integer of 8 to 64 bits, valid until data is resized. A
  // temporary tensor does not compile. Throws DTYPE if T is not the tensor's type, SHAPE if the size of data does not
  // match the shape.
  template <detail::TensorElement T>
  std::span<const T> as() const& {
    detail::check_elements(*this, detail::element_of(static_cast<T*>(nullptr)));
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  template <detail::TensorElement T>
  std::span<T> as() & {
    detail::check_elements(*this, detail::element_of(static_cast<T*>(nullptr)));
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }
  template <detail::TensorElement T>
  std::span<const T> as() const&& = delete;
};

// ---- files of either format, by the suffix of their name -----------------------------------------

// path ends in .safetensors or .npy; any other suffix throws FORMAT. An .npy holds one tensor without a name, and no
// metadata. All functions throw FILE and FORMAT.

// Name, type and shape of every tensor, in the file's order. Reads only the header, with the checks of read_tensors.
ROTARY_API std::vector<TensorInfo> tensor_infos(const std::filesystem::path& path);
ROTARY_API std::map<std::string, std::string> tensor_metadata(const std::filesystem::path& path);
ROTARY_API std::vector<Tensor> read_tensors(const std::filesystem::path& path);
// The tensor of that name; for an .npy its only tensor, whatever the name. Throws TENSOR if there is none.
ROTARY_API Tensor read_tensor(const std::filesystem::path& path, std::string_view name);
// Atomic, like write_safetensors and write_npy. An .npy drops the tensor's name. Throws SHAPE (the size of data does
// not match the shape), and FORMAT if an .npy gets metadata, not exactly one tensor, or a type that numpy lacks.
ROTARY_API void write_tensors(const std::filesystem::path& path, std::span<const Tensor> tensors,
                              const std::map<std::string, std::string>& metadata = {});

// ---- safetensors and npy -------------------------------------------------------------------------

// A safetensors file: the constructor reads the header, read() reads one tensor. Every size is checked before anything
// is allocated; holes, overlaps, duplicate names and unknown types are refused. Throws FILE, FORMAT, TENSOR.
class ROTARY_API SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path&);
  // From the bytes of a file, as read from a pipe; name is for error messages.
  SafetensorsFile(std::vector<std::byte> whole, const std::string& name);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  const std::vector<TensorInfo>& tensors() const noexcept;  // in the file's order
  const std::map<std::string, std::string>& metadata() const noexcept;
  const TensorInfo* find(std::string_view name) const noexcept;
  Tensor read(std::string_view name) const;
  // Passes to sink, piece by piece, the bytes of a file with the same tensors in the same order and with this metadata.
  // A tensor in `changed` replaces the one of its name, perhaps with another shape. Tensors that do not change are
  // never in memory as a whole. Throws TENSOR (no such name), SHAPE (another type, or data that does not fit the
  // shape), and what sink throws.
  void copy(const std::function<void(std::span<const std::byte>)>& sink, std::span<const Tensor* const> changed,
            const std::map<std::string, std::string>& metadata) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// write_safetensors and write_npy write a temporary file in the same folder, fsync and rename: path is the old file or
// the whole new one.
ROTARY_API void write_safetensors(const std::filesystem::path&, std::span<const Tensor* const> tensors,
                                  const std::map<std::string, std::string>& metadata = {});
// Reads .npy versions 1 to 3, in C or Fortran order and either byte order, into C order and little-endian. Types that
// numpy does not have, bf16 among them, throw FORMAT.
ROTARY_API Tensor read_npy(const std::filesystem::path&);
ROTARY_API Tensor parse_npy(std::vector<std::byte> whole, const std::string& name);  // see SafetensorsFile
ROTARY_API void write_npy(const std::filesystem::path&, const Tensor&);

}  // namespace rotary
