// What DLPack 1.3 lays down in memory (https://dmlc.github.io/dlpack/latest/c_api.html).
#pragma once

#include <cstdint>

namespace rotary::python::dlpack {

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
  std::int64_t* strides;  // in elements; null in old versions: contiguous
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

inline constexpr std::int32_t cuda = 2;
inline constexpr std::int32_t cpu = 1, pinned_by_cuda = 3, pinned_by_rocm = 11;  // memory that the CPU reads
inline constexpr std::uint8_t code_int = 0, code_uint = 1, code_float = 2, code_bfloat = 4, code_bool = 6;

// type(x).__dlpack_c_exchange_api__ is a capsule "dlpack_exchange_api" of this.
struct ExchangeHeader {
  Version version;
  ExchangeHeader* older;
};
struct ExchangeApi {
  ExchangeHeader header;
  void* allocate;
  int (*managed_from_object)(void* object, ManagedVersioned** out);
  int (*managed_to_object)(ManagedVersioned* tensor, void** object);
  int (*tensor_from_object)(void* object, Tensor* out);  // may be null; owns nothing
  void* current_work_stream;
};

}  // namespace rotary::python::dlpack
