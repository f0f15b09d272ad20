// python/src/xla_ffi.h against jaxlib's own header: compiled by test_jax.py, which is the test.
#include "xla/ffi/api/c_api.h"
#include "xla_ffi.h"

namespace ours = rotary::python::xla;

#define SAME_SIZE(OURS, THEIRS) static_assert(sizeof(ours::OURS) == sizeof(THEIRS), #OURS)
#define SAME_PLACE(OURS, MEMBER, THEIRS, THEIR_MEMBER)                                              \
  static_assert(offsetof(ours::OURS, MEMBER) == offsetof(THEIRS, THEIR_MEMBER), #OURS "." #MEMBER); \
  static_assert(sizeof(ours::OURS::MEMBER) == sizeof(THEIRS::THEIR_MEMBER), #OURS "." #MEMBER)
#define SAME_NUMBER(OURS, THEIRS) static_assert(static_cast<int>(ours::OURS) == static_cast<int>(THEIRS), #OURS)

static_assert(ours::major == XLA_FFI_API_MAJOR);
static_assert(ours::oldest_minor <= XLA_FFI_API_MINOR && XLA_FFI_API_MINOR <= ours::newest_minor);

SAME_SIZE(Extension, XLA_FFI_Extension_Base);
SAME_PLACE(Extension, struct_size, XLA_FFI_Extension_Base, struct_size);
SAME_PLACE(Extension, type, XLA_FFI_Extension_Base, type);
SAME_PLACE(Extension, next, XLA_FFI_Extension_Base, next);
SAME_NUMBER(extension_metadata, XLA_FFI_Extension_Metadata);

SAME_SIZE(Version, XLA_FFI_Api_Version);
SAME_PLACE(Version, extensions, XLA_FFI_Api_Version, extension_start);
SAME_PLACE(Version, major, XLA_FFI_Api_Version, major_version);
SAME_PLACE(Version, minor, XLA_FFI_Api_Version, minor_version);

SAME_NUMBER(DataType::pred, XLA_FFI_DataType_PRED);
SAME_NUMBER(DataType::s32, XLA_FFI_DataType_S32);
SAME_NUMBER(DataType::s64, XLA_FFI_DataType_S64);
SAME_NUMBER(DataType::f16, XLA_FFI_DataType_F16);
SAME_NUMBER(DataType::f32, XLA_FFI_DataType_F32);
SAME_NUMBER(DataType::f64, XLA_FFI_DataType_F64);
SAME_NUMBER(DataType::bf16, XLA_FFI_DataType_BF16);

SAME_SIZE(Buffer, XLA_FFI_Buffer);
SAME_PLACE(Buffer, type, XLA_FFI_Buffer, dtype);
SAME_PLACE(Buffer, data, XLA_FFI_Buffer, data);
SAME_PLACE(Buffer, rank, XLA_FFI_Buffer, rank);
SAME_PLACE(Buffer, dimensions, XLA_FFI_Buffer, dims);

SAME_SIZE(Text, XLA_FFI_ByteSpan);
SAME_PLACE(Text, letters, XLA_FFI_ByteSpan, ptr);
SAME_PLACE(Text, size, XLA_FFI_ByteSpan, len);
SAME_SIZE(Scalar, XLA_FFI_Scalar);
SAME_PLACE(Scalar, type, XLA_FFI_Scalar, dtype);
SAME_PLACE(Scalar, value, XLA_FFI_Scalar, value);
SAME_SIZE(Array, XLA_FFI_Array);
SAME_PLACE(Array, type, XLA_FFI_Array, dtype);
SAME_PLACE(Array, size, XLA_FFI_Array, size);
SAME_PLACE(Array, data, XLA_FFI_Array, data);
SAME_NUMBER(AttributeType::array, XLA_FFI_AttrType_ARRAY);
SAME_NUMBER(AttributeType::dictionary, XLA_FFI_AttrType_DICTIONARY);
SAME_NUMBER(AttributeType::scalar, XLA_FFI_AttrType_SCALAR);
SAME_NUMBER(AttributeType::text, XLA_FFI_AttrType_STRING);
SAME_NUMBER(argument_is_buffer, XLA_FFI_ArgType_BUFFER);
SAME_NUMBER(argument_is_buffer, XLA_FFI_RetType_BUFFER);

SAME_SIZE(Arguments, XLA_FFI_Args);
SAME_PLACE(Arguments, size, XLA_FFI_Args, size);
SAME_PLACE(Arguments, types, XLA_FFI_Args, types);
SAME_PLACE(Arguments, values, XLA_FFI_Args, args);
SAME_SIZE(Results, XLA_FFI_Rets);
SAME_PLACE(Results, types, XLA_FFI_Rets, types);
SAME_PLACE(Results, values, XLA_FFI_Rets, rets);
SAME_SIZE(Attributes, XLA_FFI_Attrs);
SAME_PLACE(Attributes, size, XLA_FFI_Attrs, size);
SAME_PLACE(Attributes, types, XLA_FFI_Attrs, types);
SAME_PLACE(Attributes, names, XLA_FFI_Attrs, names);
SAME_PLACE(Attributes, values, XLA_FFI_Attrs, attrs);

SAME_SIZE(CreateError, XLA_FFI_Error_Create_Args);
SAME_PLACE(CreateError, message, XLA_FFI_Error_Create_Args, message);
SAME_PLACE(CreateError, code, XLA_FFI_Error_Create_Args, errc);
SAME_NUMBER(invalid_argument, XLA_FFI_Error_Code_INVALID_ARGUMENT);
SAME_NUMBER(internal_error, XLA_FFI_Error_Code_INTERNAL);
SAME_SIZE(DestroyError, XLA_FFI_Error_Destroy_Args);
SAME_PLACE(DestroyError, error, XLA_FFI_Error_Destroy_Args, error);
SAME_SIZE(Schedule, XLA_FFI_ThreadPool_Schedule_Args);
SAME_PLACE(Schedule, context, XLA_FFI_ThreadPool_Schedule_Args, ctx);
SAME_PLACE(Schedule, task, XLA_FFI_ThreadPool_Schedule_Args, task);
SAME_PLACE(Schedule, data, XLA_FFI_ThreadPool_Schedule_Args, data);
SAME_SIZE(CountThreads, XLA_FFI_ThreadPool_NumThreads_Args);
SAME_PLACE(CountThreads, count, XLA_FFI_ThreadPool_NumThreads_Args, num_threads);

SAME_PLACE(Api, struct_size, XLA_FFI_Api, struct_size);
SAME_PLACE(Api, version, XLA_FFI_Api, api_version);
SAME_PLACE(Api, internal, XLA_FFI_Api, internal_api);
SAME_PLACE(Api, create_error, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME_PLACE(Api, get_message, XLA_FFI_Api, XLA_FFI_Error_GetMessage);
SAME_PLACE(Api, destroy_error, XLA_FFI_Api, XLA_FFI_Error_Destroy);
SAME_PLACE(Api, schedule, XLA_FFI_Api, XLA_FFI_ThreadPool_Schedule);
SAME_PLACE(Api, count_threads, XLA_FFI_Api, XLA_FFI_ThreadPool_NumThreads);

SAME_NUMBER(Stage::execute, XLA_FFI_ExecutionStage_EXECUTE);
SAME_PLACE(CallFrame, struct_size, XLA_FFI_CallFrame, struct_size);
SAME_PLACE(CallFrame, extensions, XLA_FFI_CallFrame, extension_start);
SAME_PLACE(CallFrame, api, XLA_FFI_CallFrame, api);
SAME_PLACE(CallFrame, context, XLA_FFI_CallFrame, ctx);
SAME_PLACE(CallFrame, stage, XLA_FFI_CallFrame, stage);
SAME_PLACE(CallFrame, arguments, XLA_FFI_CallFrame, args);
SAME_PLACE(CallFrame, results, XLA_FFI_CallFrame, rets);
SAME_PLACE(CallFrame, attributes, XLA_FFI_CallFrame, attrs);
static_assert(sizeof(ours::CallFrame) <= XLA_FFI_CallFrame_STRUCT_SIZE);

SAME_PLACE(Metadata, version, XLA_FFI_Metadata, api_version);
SAME_PLACE(Metadata, traits, XLA_FFI_Metadata, traits);
SAME_SIZE(MetadataExtension, XLA_FFI_Metadata_Extension);
SAME_PLACE(MetadataExtension, metadata, XLA_FFI_Metadata_Extension, metadata);
#if XLA_FFI_API_MINOR >= 2  // looked at only where struct_size reaches it
SAME_PLACE(Metadata, state_type, XLA_FFI_Metadata, state_type_id);
#endif
