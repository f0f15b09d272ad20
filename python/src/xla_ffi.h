// What XLA's foreign function interface lays down in memory, versions 0.1 to 0.3 (jaxlib's xla/ffi/api/c_api.h): the
// part that this module uses. tests/xla_abi.cpp compares it with the header of an installed jaxlib.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rotary::python::xla {

inline constexpr int major = 0, oldest_minor = 1, newest_minor = 3;

// Every struct that crosses the border begins with its size, and with a list of additions.
struct Extension {
  std::size_t struct_size;
  std::int32_t type;
  Extension* next;
};
inline constexpr std::int32_t extension_metadata = 1;

struct Version {
  std::size_t struct_size;
  Extension* extensions;
  int major, minor;
};

enum class DataType : std::int32_t { pred = 1, s32 = 4, s64 = 5, f16 = 10, f32 = 11, f64 = 12, bf16 = 16 };

struct Buffer {
  std::size_t struct_size;
  Extension* extensions;
  DataType type;
  void* data;
  std::int64_t rank;
  std::int64_t* dimensions;
};

struct Text {  // not terminated
  const char* letters;
  std::size_t size;
};
struct Scalar {
  DataType type;
  void* value;
};
struct Array {
  DataType type;
  std::size_t size;
  void* data;
};
enum class AttributeType : std::int32_t { array = 1, dictionary = 2, scalar = 3, text = 4 };
inline constexpr std::int32_t argument_is_buffer = 1;

struct Arguments {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  std::int32_t* types;
  void** values;
};
using Results = Arguments;
struct Attributes {  // ordered by name
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  AttributeType* types;
  Text** names;
  void** values;
};

struct Context;       // of one execution
struct ErrorMessage;  // a status that is not ok; whoever receives it destroys it

struct Internal;
struct CreateError {
  std::size_t struct_size;
  Extension* extensions;
  const char* message;
  std::int32_t code;
};
inline constexpr std::int32_t invalid_argument = 3, internal_error = 13;
struct DestroyError {
  std::size_t struct_size;
  Extension* extensions;
  ErrorMessage* error;
};
struct Schedule {
  std::size_t struct_size;
  Extension* extensions;
  Context* context;
  void (*task)(void* data);
  void* data;
};
struct CountThreads {
  std::size_t struct_size;
  Extension* extensions;
  Context* context;
  std::int64_t* count;
};

struct Api {
  std::size_t struct_size;
  Extension* extensions;
  Version version;
  const Internal* internal;
  ErrorMessage* (*create_error)(CreateError*);
  void* get_message;
  void (*destroy_error)(DestroyError*);
  void* others[8];  // registration, streams, types, state, device memory
  ErrorMessage* (*schedule)(Schedule*);
  ErrorMessage* (*count_threads)(CountThreads*);
};

enum class Stage : std::int32_t { instantiate = 0, prepare = 1, initialize = 2, execute = 3 };

struct CallFrame {
  std::size_t struct_size;
  Extension* extensions;
  const Api* api;
  Context* context;
  Stage stage;
  Arguments arguments;
  Results results;
  Attributes attributes;
};

// What a handler tells of itself when it is registered: a frame whose first extension is this.
struct Metadata {
  std::size_t struct_size;
  Version version;
  std::uint32_t traits;
  std::int64_t state_type;  // since 0.2; see struct_size
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

using Handler = ErrorMessage*(CallFrame*);

}  // namespace rotary::python::xla
