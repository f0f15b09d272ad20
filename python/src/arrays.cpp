#include "arrays.h"

#include <bit>
#include <unordered_map>

#include "values.h"

namespace rotary::python {

namespace {

// The facts that are known of a type of arrays.
struct Known {
  Ref type;
  Kind kind;
  const dlpack::ExchangeApi* exchange;
};
auto& known_types = *new std::unordered_map<PyObject*, Known>;  // never destroyed: Python may have ended

// ---- the library of an array ----

const dlpack::ExchangeApi* find_exchange(PyObject* type) {
  const Ref capsule = attribute_or_null(type, "__dlpack_c_exchange_api__");
  if (!capsule || PyCapsule_IsValid(capsule.get(), "dlpack_exchange_api") == 0) return nullptr;
  const auto* api = static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  while (api != nullptr && api->version.major != 1) api = api->older;
  return api != nullptr && api->tensor_from_object != nullptr ? api : nullptr;
}

const Known& known(PyObject* object) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (const auto found = known_types.find(type); found != known_types.end()) return found->second;
  const Ref find = module_function("rotary._memory", "kind_of");
  const Ref kind = checked(PyObject_CallFunctionObjArgs(find.get(), type, nullptr));
  Known facts{Ref::borrowed(type), static_cast<Kind>(integer_of(kind.get(), "kind")), find_exchange(type)};
  // A program may make new types all the time. Code that runs when one of them ends finds the map empty already.
  if (known_types.size() > 100) std::unordered_map<PyObject*, Known>().swap(known_types);
  return known_types.insert_or_assign(type, std::move(facts)).first->second;
}

// If it is not, as in a broadcast array, a new array in the order of the strides would have another innermost
// dimension.
bool head_dim_is_innermost(const ArrayView& view) {
  const auto item = static_cast<std::int64_t>(bits_of(view.type) / 8);
  for (std::size_t d = 0; d + 1 < static_cast<std::size_t>(view.ndim); ++d) {
    if (view.shape[d] > 1 && view.strides[d] <= item) return false;
  }
  return true;
}

// ---- DLPack and buffers ----

constexpr dlpack::Version newest{1, 1};  // the newest version that this file reads

// The element type of numpy's kind ('f', 'i', 'u', 'b') and size in bytes; empty for others.
std::optional<ElementType> element_type_of(char kind, std::int64_t size) {
  using enum ElementType;
  for (const ElementType type : {f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean}) {
    const char letter = type == boolean ? 'b' : static_cast<char>(*name(type) - 'A' + 'a');
    if (kind == letter && size * 8 == bits_of(type)) return type;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_type(const char* name, const std::string& got) {
  fail(Code::DTYPE, name, "the elements must be floats or integers in this machine's byte order but got ", got);
}

char kind_of_format(char letter) {
  if (std::string_view("efd").find(letter) != std::string_view::npos) return 'f';
  if (std::string_view("bhilqn").find(letter) != std::string_view::npos) return 'i';
  if (std::string_view("BHILQN").find(letter) != std::string_view::npos) return 'u';
  return letter == '?' ? 'b' : 'V';
}

std::optional<ElementType> type_of(const dlpack::DataType& type) {
  if (type.lanes != 1 || type.bits % 8 != 0) return std::nullopt;
  if (type.code == dlpack::code_bfloat && type.bits == 16) return ElementType::bf16;
  constexpr std::string_view kinds = "iuf...b";  // by dlpack::code_int, ...
  return type.code < kinds.size() ? element_type_of(kinds[type.code], type.bits / 8) : std::nullopt;
}

// Null if the object has no __dlpack__.
Ref capsule_of(PyObject* object) {
  const Ref method = attribute_or_null(object, "__dlpack__");
  if (!method) return {};
  const Ref nothing = checked(PyTuple_New(0));
  const Ref words = checked(Py_BuildValue("{s:(II)}", "max_version", newest.major, newest.minor));
  Ref capsule(PyObject_Call(method.get(), nothing.get(), words.get()));
  if (capsule || PyErr_ExceptionMatches(PyExc_TypeError) == 0) return checked(capsule.release());
  PyErr_Clear();  // a __dlpack__ that knows no versions
  return checked(PyObject_Call(method.get(), nothing.get(), nullptr));
}

// The capsule, by the function that torch's __dlpack__ calls in the end: __dlpack__ takes 2 us more, and refuses a
// tensor with requires_grad even where no gradient is recorded.
Ref capsule_of_torch(PyObject* object) {
  static PyObject* const make = module_function("torch._C", "_to_dlpack").release();
  return checked(PyObject_CallFunctionObjArgs(make, object, nullptr));
}

}  // namespace

void ArrayView::take(const dlpack::Tensor& tensor) {
  using namespace dlpack;
  const std::int32_t device = tensor.device.type;
  if (device != cpu && device != pinned_by_cuda && device != pinned_by_rocm) {
    fail(Code::DEVICE, name_, "the array must be in the CPU's memory but got one on another device (DLPack's type ",
         device, "): move it to the CPU");
  }
  const std::optional<ElementType> found = type_of(tensor.dtype);
  if (!found) {  // DLPack's newer types, behind the bools, are floats
    const char* word = tensor.dtype.code == dlpack::code_complex ? "complex"
                       : tensor.dtype.code > dlpack::code_bool   ? "float"
                                                                 : "a type of DLPack of bits ";
    refuse_type(name_, word + std::to_string(tensor.dtype.bits));
  }
  type = *found;
  data = tensor.data == nullptr ? nullptr : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  set_dimensions(tensor.ndim, tensor.shape, tensor.strides, bits_of(type) / 8);
  if (data == nullptr && elements() > 0) {
    fail(Code::SHAPE, name_, "the array must point to its elements but got null: its memory was given back");
  }
}

bool ArrayView::from_exchange(PyObject* object) {
  const dlpack::ExchangeApi* api = known(object).exchange;
  if (api == nullptr) return false;
  dlpack::Tensor tensor{};
  checked(api->tensor_from_object(object, &tensor));
  take(tensor);
  return true;
}

// Does not consume the capsule, which frees the tensor when it ends.
bool ArrayView::from_capsule(PyObject* object) {
  owner_ = kind == Kind::torch ? capsule_of_torch(object) : capsule_of(object);
  if (!owner_) return false;
  if (PyCapsule_IsValid(owner_.get(), "dltensor_versioned") != 0) {
    const auto* tensor =
        static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(owner_.get(), "dltensor_versioned"));
    if (tensor->version.major != newest.major) {
      fail(Code::FORMAT, name_, "DLPack's version must be 1 but got ", tensor->version.major);
    }
    read_only = (tensor->flags & dlpack::read_only) != 0;
    take(tensor->tensor);
    return true;
  }
  const auto* tensor = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(owner_.get(), "dltensor"));
  if (tensor == nullptr) throw Raised{};
  read_only = kind == Kind::jax;  // JAX's arrays are never written to
  take(tensor->tensor);
  return true;
}

bool ArrayView::from_buffer(PyObject* object) {
  try {
    buffer_.emplace(object, PyBUF_RECORDS_RO);
  } catch (const Raised&) {
    const auto is = [](PyObject* error) { return PyErr_ExceptionMatches(error) != 0; };
    if (!is(PyExc_TypeError) && !is(PyExc_BufferError) && !(kind == Kind::numpy && is(PyExc_ValueError))) throw;
    PyErr_Clear();
    return false;
  }
  const Buffer& seen = *buffer_;
  std::string_view format = seen->format == nullptr ? "B" : seen->format;
  const std::string whole(format);
  constexpr char order = std::endian::native == std::endian::little ? '<' : '>';
  if (format.size() == 2 && (format[0] == '@' || format[0] == '=' || format[0] == order)) format.remove_prefix(1);
  std::optional<ElementType> found;
  if (format.size() == 1) found = element_type_of(kind_of_format(format[0]), seen->itemsize);
  if (!found || seen->suboffsets != nullptr) {
    if (kind == Kind::numpy) refuse_type(name_, repr_of(checked(PyObject_GetAttrString(object, "dtype")).get()));
    refuse_type(name_, "the buffer format '" + whole + "'");
  }
  type = *found;
  data = seen->buf;
  read_only = seen->readonly != 0;
  set_dimensions(seen->ndim, seen->shape, seen->strides, 1);
  return true;
}

// Refuses a tensor of torch whose memory alone does not show its values or its gradient.
void ArrayView::check_guards(PyObject* object) const {
  static PyObject* const grad_word = PyUnicode_InternFromString("requires_grad");
  static PyObject* const negative_word = PyUnicode_InternFromString("is_neg");
  static PyObject* const enabled = module_function("torch", "is_grad_enabled").release();
  const Ref records = checked(PyObject_GetAttr(object, grad_word));
  if (is_true(records.get()) && is_true(checked(PyObject_CallObject(enabled, nullptr)).get())) {
    fail(Code::TORCH, name_,
         "a tensor of torch must not record a gradient here but got requires_grad: call it under torch.no_grad(), or "
         "pass x.detach()");
  }
  const Ref negative = checked(PyObject_CallMethodObjArgs(object, negative_word, nullptr));
  if (is_true(negative.get())) {
    fail(Code::TORCH, name_, "a tensor of torch must hold its own signs but got a negative view: pass x.resolve_neg()");
  }
}

Kind ArrayView::kind_of(PyObject* object) { return known(object).kind; }

ArrayView::ArrayView(PyObject* object, const char* name, bool guards) : name_(name) {
  kind = known(object).kind;
  if (guards && kind == Kind::torch) check_guards(object);
  if (kind == Kind::traced) {
    fail(Code::VALUE, name_,
         "an array of JAX must hold numbers here but got one that is traced (inside jit, grad or vmap): use "
         "rotary.jax.rotate, rotary.jax.rotate_qk or rotary.jax.table");
  }
  if (kind == Kind::numpy ? from_numpy(object) : from_exchange(object) || from_capsule(object) || from_buffer(object)) {
    return;
  }
  raise_type_error("[", name, "] an array must be of numpy, torch or JAX, or have __dlpack__ or a ", "buffer, but got ",
                   type_name(object));
}

std::int64_t ArrayView::elements() const noexcept {
  std::int64_t count = 1;
  for (std::size_t d = 0; d < static_cast<std::size_t>(ndim); ++d) count *= shape[d];
  return count;
}

bool ArrayView::is_contiguous() const noexcept {
  std::int64_t run = bits_of(type) / 8;
  for (int d = ndim - 1; d >= 0; --d) {
    const auto axis = static_cast<std::size_t>(d);
    if (shape[axis] > 1 && strides[axis] != run) return false;
    run *= shape[axis];
  }
  return true;
}

std::string ArrayView::shape_text() const {
  std::string text = "[";
  for (std::size_t d = 0; d < static_cast<std::size_t>(ndim); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  }
  return text + "]";
}

std::string type_word(ElementType type) {
  const std::string word = name(type);  // "BOOL", "BF16", "F16" to "F64", "I8" to "U64"
  for (const auto& [letters, whole] : {std::pair{"BF", "bfloat"}, {"F", "float"}, {"I", "int"}, {"U", "uint"}}) {
    if (word.starts_with(letters)) return whole + word.substr(std::string_view(letters).size());
  }
  return word;
}

// ml_dtypes' bfloat16, which buffers and DLPack cannot describe, is seen as integers of its bits. The buffer of a
// scalar of dates is bytes.
bool ArrayView::from_numpy(PyObject* object) {
  const bool seen = from_buffer(object);
  if (seen && type != ElementType::u8) return true;
  const Ref dtype = checked(PyObject_GetAttrString(object, "dtype"));
  const Ref name = checked(PyObject_GetAttrString(dtype.get(), "name"));
  const std::string_view word = view_of(name.get(), "dtype.name");
  if (seen && word == "uint8") return true;
  if (seen || word != "bfloat16") refuse_type(name_, repr_of(dtype.get()));
  owner_ = checked(PyObject_CallMethod(object, "view", "s", "uint16"));
  from_buffer(owner_.get());
  type = ElementType::bf16;
  return true;
}

Ref empty_like(PyObject* object, const ArrayView& view) {
  const bool keeps = head_dim_is_innermost(view);
  if (view.kind == Kind::numpy) {
    static PyObject* const make = module_function("numpy", "empty_like").release();
    static PyObject* const c_order = PyUnicode_InternFromString("C");
    if (keeps) return checked(PyObject_CallFunctionObjArgs(make, object, nullptr));
    return checked(PyObject_CallFunctionObjArgs(make, object, Py_None, c_order, nullptr));
  }
  if (view.kind == Kind::torch) {
    static PyObject* const make = module_function("torch", "empty_like").release();
    if (keeps) return checked(PyObject_CallFunctionObjArgs(make, object, nullptr));
    static PyObject* const contiguous = module_function("torch", "contiguous_format").release();
    const Ref arguments = checked(PyTuple_Pack(1, object)), words = checked(PyDict_New());
    checked(PyDict_SetItemString(words.get(), "memory_format", contiguous));
    return checked(PyObject_Call(make, arguments.get(), words.get()));
  }
  const Ref make = module_function("rotary._memory", "empty"), type = new_text(name(view.type));
  const Ref shape = tuple_of({view.shape.data(), static_cast<std::size_t>(view.ndim)});
  PyObject* like = view.kind == Kind::jax ? object : Py_None;
  return checked(PyObject_CallFunctionObjArgs(make.get(), type.get(), shape.get(), like, nullptr));
}

Ref finished(Ref array, Kind kind) {
  if (kind != Kind::jax) return array;
  const Ref convert = module_function("jax.numpy", "asarray");
  return checked(PyObject_CallFunctionObjArgs(convert.get(), array.get(), nullptr));
}

}  // namespace rotary::python
