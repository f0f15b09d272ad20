#include "rotary_torch/models/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "files/tensors/checkpoint.h"
#include "files/text/io.h"
#include "rotary_torch/op/refusal.h"
#include "values/number_text.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;
using rotary::ElementType;
using rotary::detail::shape_text;
using rotary::files::in_quotes;
namespace fs = std::filesystem;

constexpr const char* single = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

constexpr Refusal refuse{"checkpoint"};

// ---- element types -------------------------------------------------------------------------------

struct TypePair {
  ElementType file;
  at::ScalarType torch;
};
constexpr std::array type_pairs = {
    TypePair{ElementType::f32, at::kFloat},     TypePair{ElementType::f16, at::kHalf},
    TypePair{ElementType::bf16, at::kBFloat16}, TypePair{ElementType::f64, at::kDouble},
    TypePair{ElementType::i64, at::kLong},      TypePair{ElementType::i32, at::kInt},
    TypePair{ElementType::i16, at::kShort},     TypePair{ElementType::i8, at::kChar},
    TypePair{ElementType::u8, at::kByte},       TypePair{ElementType::boolean, at::kBool}};

}  // namespace

// ---- names ---------------------------------------------------------------------------------------

bool is_buffer(std::string_view name, std::span<const std::string_view> more) {
  const auto ends_name = [&](std::string_view end) {
    return name == end || (name.ends_with(end) && name[name.size() - end.size() - 1] == '.');
  };
  constexpr std::string_view common[] = {"rotary_emb.inv_freq", "attention.bias", "masked_bias", "position_ids"};
  return std::any_of(std::begin(common), std::end(common), ends_name) ||
         std::any_of(more.begin(), more.end(), ends_name);
}

// ---- Checkpoint ----------------------------------------------------------------------------------

Checkpoint::Checkpoint(const fs::path& dir) {
  std::map<std::string, std::string> index;
  std::vector<std::string> names{single};
  std::error_code ignored;
  if (!fs::exists(dir / single, ignored) && fs::exists(dir / index_name, ignored)) {
    index = rotary::files::read_weight_map("checkpoint", dir / index_name);
    names.clear();
    for (const auto& [tensor, file] : index) names.push_back(file);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
  } else if (!fs::exists(dir / single, ignored)) {
    refuse(Code::FILE, dir.string(), " must hold ", single, " or ", index_name, " but has neither",
           fs::exists(dir / "pytorch_model.bin", ignored) ? " (pytorch_model.bin is not read: save it as safetensors)"
                                                          : "");
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    files_.emplace_back(dir / names[i]);
    for (const rotary::TensorInfo& info : files_.back().tensors()) {
      const auto [place, added] = where_.try_emplace(info.name, i, false);
      if (!added) {
        refuse(Code::TENSOR, "a tensor must be in one shard but ", in_quotes(info.name), " is in ",
               names[place->second.first], " and ", names[i]);
      }
    }
  }
  for (const auto& [tensor, file] : index) {
    const auto found = where_.find(tensor);
    if (found == where_.end() || names[found->second.first] != file) {
      refuse(Code::TENSOR, index_name, " says that ", in_quotes(tensor), " is in ", file,
             " but that file does not have it");
    }
  }
}

bool Checkpoint::has(const std::string& name) const { return where_.count(name) != 0; }

void Checkpoint::expect(const std::string& name, at::IntArrayRef shape) const {
  const auto found = where_.find(name);
  if (found == where_.end()) {
    refuse(Code::TENSOR, "the model must have ", in_quotes(name), " of shape ", shape_text(shape),
           " but the file lacks it");
  }
  const std::vector<std::int64_t>& stored = files_[found->second.first].find(name)->shape;
  if (at::IntArrayRef(stored) != shape) {
    refuse(Code::TENSOR, in_quotes(name), " must have shape ", shape_text(shape), ", as config.json says, but has ",
           shape_text(stored));
  }
}

Tensor Checkpoint::read(const std::string& name, at::IntArrayRef shape) {
  expect(name, shape);
  const auto found = where_.find(name);
  const rotary::SafetensorsFile& file = files_[found->second.first];
  const rotary::TensorInfo& info = *file.find(name);
  if (!rotary::dtype_of(info.type) && info.type != ElementType::f64) {
    refuse(Code::TENSOR, in_quotes(name), " must be F32, F16, BF16 or F64 but is ", rotary::name(info.type));
  }
  found->second.second = true;
  return torch_tensor(file.read(name)).to(at::kFloat);
}

void Checkpoint::read_into(const std::string& name, const Tensor& parameter) {
  const at::NoGradGuard no_grad;
  parameter.copy_(read(name, parameter.sizes()));
}

std::vector<std::string> Checkpoint::unused() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : where_) {
    if (!place.second) names.push_back(name);
  }
  return names;
}

// ---- torch and files -----------------------------------------------------------------------------

rotary::Tensor file_tensor(std::string name, const Tensor& tensor) {
  const auto pair = std::find_if(type_pairs.begin(), type_pairs.end(),
                                 [&](const TypePair& p) { return p.torch == tensor.scalar_type(); });
  if (pair == type_pairs.end()) {
    refuse(Code::DTYPE, in_quotes(name), " must be f32, f16, bf16, f64, an integer or bool but is ",
           tensor.scalar_type());
  }
  const Tensor dense = tensor.detach().to(at::kCPU).contiguous();
  rotary::Tensor made;
  made.name = std::move(name);
  made.type = pair->file;
  made.shape = dense.sizes().vec();
  made.bytes = dense.nbytes();
  const auto* begin = static_cast<const std::byte*>(dense.const_data_ptr());
  made.data.assign(begin, begin + dense.nbytes());
  return made;
}

Tensor torch_tensor(const rotary::Tensor& tensor) {
  const auto pair =
      std::find_if(type_pairs.begin(), type_pairs.end(), [&](const TypePair& p) { return p.file == tensor.type; });
  if (pair == type_pairs.end()) {
    refuse(Code::DTYPE, in_quotes(tensor.name), " must be F32, F16, BF16, F64, I64, I32, I16, I8, U8 or BOOL but is ",
           rotary::name(tensor.type));
  }
  const Tensor made = at::empty(tensor.shape, pair->torch);
  if (!tensor.data.empty()) std::memcpy(made.mutable_data_ptr(), tensor.data.data(), tensor.data.size());
  return made;
}

void write_tensors(const fs::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  std::vector<rotary::Tensor> made;
  made.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) made.push_back(file_tensor(name, tensor));
  std::vector<const rotary::Tensor*> pointers;
  for (const rotary::Tensor& tensor : made) pointers.push_back(&tensor);
  rotary::write_safetensors(path, pointers, metadata);
}

}  // namespace rotary_torch
