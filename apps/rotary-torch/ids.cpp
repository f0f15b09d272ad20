#include "ids.h"

#include <ATen/ATen.h>

#include <cstring>
#include <string>
#include <type_traits>

#include "apps/shared/text.h"
#include "rotary/error.h"
#include "rotary/tensors.h"

namespace rotary::cli {

namespace {

[[noreturn]] void refuse(Code code, const char* operation, const std::filesystem::path& path, const std::string& rule) {
  throw Error(code, "[" + std::string(operation) + "] " + path.string() + ": " + rule);
}

template <class Integer>
void widen(const rotary::Tensor& from, std::int64_t vocabulary, std::int64_t* to, const auto& refuse_value) {
  for (std::int64_t i = 0; i < from.elements(); ++i) {
    Integer id = 0;
    std::memcpy(&id, from.data.data() + static_cast<std::size_t>(i) * sizeof id, sizeof id);
    bool outside = false;
    if constexpr (std::is_unsigned_v<Integer>) {
      outside = static_cast<std::uint64_t>(id) >= static_cast<std::uint64_t>(vocabulary);
    } else {
      outside = id < 0 || id >= vocabulary;
    }
    if (outside) refuse_value(std::to_string(id), i);
    to[i] = static_cast<std::int64_t>(id);
  }
}

}  // namespace

at::Tensor read_ids(const char* operation, const std::filesystem::path& path, std::int64_t vocabulary) {
  const rotary::Tensor file = read_npy(path);
  if (file.shape.size() != 2)
    refuse(Code::SHAPE, operation, path, "ids must be [batch, tokens] but got " + shape_text(file.shape));
  if (file.elements() == 0)
    refuse(Code::SHAPE, operation, path, "ids must be at least one but got " + shape_text(file.shape));
  const auto refuse_value = [&](const std::string& id, std::int64_t element) {
    refuse(Code::VALUE, operation, path,
           "ids must be from 0 to " + std::to_string(vocabulary - 1) + " but row " +
               std::to_string(element / file.shape[1]) + " holds " + id + " at token " +
               std::to_string(element % file.shape[1]));
  };
  const at::Tensor ids = at::empty(file.shape, at::kLong);
  const auto widened = [&]<class Integer>(Integer) {
    widen<Integer>(file, vocabulary, ids.data_ptr<std::int64_t>(), refuse_value);
    return ids;
  };
  switch (file.type) {
    case ElementType::i8:
      return widened(std::int8_t{});
    case ElementType::u8:
      return widened(std::uint8_t{});
    case ElementType::i16:
      return widened(std::int16_t{});
    case ElementType::u16:
      return widened(std::uint16_t{});
    case ElementType::i32:
      return widened(std::int32_t{});
    case ElementType::u32:
      return widened(std::uint32_t{});
    case ElementType::i64:
      return widened(std::int64_t{});
    case ElementType::u64:
      return widened(std::uint64_t{});
    default:
      refuse(Code::DTYPE, operation, path, std::string("ids must be integers but got ") + rotary::name(file.type));
  }
}

void write_ids(const std::filesystem::path& path, const at::Tensor& ids) {
  const at::Tensor whole = ids.contiguous();
  rotary::Tensor tensor;
  tensor.type = ElementType::i64;
  tensor.shape = whole.sizes().vec();
  tensor.bytes = static_cast<std::uint64_t>(whole.nbytes());
  tensor.data.resize(whole.nbytes());
  if (whole.nbytes() > 0) std::memcpy(tensor.data.data(), whole.const_data_ptr<std::int64_t>(), whole.nbytes());
  write_npy(path, tensor);
}

}  // namespace rotary::cli
