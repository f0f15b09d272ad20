// Tensors in files: safetensors, npy. Link rotary_files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"

namespace rotary {

// Element types by their safetensors names; bits per element and whether npy can hold it.
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
ROTARY_API const char* name(ElementType) noexcept;                  // "BOOL", "F4", ..., "U64"
ROTARY_API ElementType parse_element_type(std::string_view name);  // throws DTYPE
ROTARY_API unsigned bits_of(ElementType) noexcept;
ROTARY_API std::optional<DType> dtype_of(ElementType) noexcept;  // f32, f16, bf16 only
ROTARY_API ElementType element_type(DType) noexcept;

struct TensorInfo {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
  ROTARY_API std::int64_t elements() const noexcept;
};

// Row-major, little-endian.
struct Tensor : TensorInfo {
  std::vector<std::byte> data;
};

// Reads the header at once, tensors on demand. Every size is proven against the file's length before
// anything is allocated; holes, overlaps, duplicate names and unknown types are refused. Throws FILE, FORMAT, TENSOR.
class ROTARY_API SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path&);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  const std::vector<TensorInfo>& tensors() const noexcept;  // in the file's order
  const std::map<std::string, std::string>& metadata() const noexcept;
  const TensorInfo* find(std::string_view name) const noexcept;
  Tensor read(std::string_view name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Both write to a temporary file beside path, fsync and rename: path is the old file or the whole new one.
ROTARY_API void write_safetensors(const std::filesystem::path&, std::span<const Tensor* const> tensors,
                       const std::map<std::string, std::string>& metadata = {});
// .npy versions 1 to 3, C or Fortran order (read into C order), little- or big-endian (read into little).
// bf16 and the other types that numpy has no spelling for: FORMAT.
ROTARY_API Tensor read_npy(const std::filesystem::path&);
ROTARY_API void write_npy(const std::filesystem::path&, const Tensor&);

}  // namespace rotary
