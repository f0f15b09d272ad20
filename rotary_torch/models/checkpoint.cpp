#include "rotary_torch/models/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "files/tensors/checkpoint.h"
#include "files/text/io.h"
#include "files/text/json.h"
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

constexpr Refusal refuse{"checkpoint"};

// ---- element types -------------------------------------------------------------------------------

struct TypePair {
  ElementType file;
  at::ScalarType torch;
};
constexpr std::array type_pairs = {TypePair{ElementType::f32, at::kFloat},     TypePair{ElementType::f16, at::kHalf},
                                   TypePair{ElementType::bf16, at::kBFloat16}, TypePair{ElementType::f64, at::kDouble},
                                   TypePair{ElementType::i64, at::kLong},      TypePair{ElementType::i32, at::kInt},
                                   TypePair{ElementType::i16, at::kShort},     TypePair{ElementType::i8, at::kChar},
                                   TypePair{ElementType::u8, at::kByte},       TypePair{ElementType::u16, at::kUInt16},
                                   TypePair{ElementType::u32, at::kUInt32},    TypePair{ElementType::u64, at::kUInt64},
                                   TypePair{ElementType::boolean, at::kBool}};

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

std::optional<bool> says_language_model(const fs::path& dir) {
  const rotary::files::Json json =
      rotary::files::parse_json(rotary::files::json_file_text("read_config", dir / "config.json"));
  const auto found = json.is_object() ? json.find("architectures") : json.end();
  if (found == json.end() || !found->is_array() || found->empty()) return std::nullopt;
  return std::any_of(found->begin(), found->end(), [](const auto& item) {
    const std::string name = item.is_string() ? item.template get<std::string>() : "";
    return name.ends_with("ForCausalLM") || name.ends_with("ForMaskedLM") || name.ends_with("LMHeadModel");
  });
}

void add_linear(std::vector<Stored>& rows, const std::string& name, const torch::nn::Linear& layer, std::int64_t first,
                std::int64_t count, std::int64_t heads) {
  const std::int64_t number = count < 0 ? layer->weight.size(0) : count;
  rows.push_back({name + ".weight", layer->weight.narrow(0, first, number), heads});
  if (layer->bias.defined()) rows.push_back({name + ".bias", layer->bias.narrow(0, first, number), heads});
}

// ---- Checkpoint ----------------------------------------------------------------------------------

Checkpoint::Checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) && !rotary::files::weights_in(path)) {
    refuse(Code::FILE, path.string(), " must hold model.safetensors or model.safetensors.index.json but has neither",
           fs::exists(path / "pytorch_model.bin", ignored) ? " (pytorch_model.bin is not read: save it as safetensors)"
                                                           : "");
  }
  files_ = std::make_shared<const rotary::files::Checkpoint>(path);
  for (const std::string& name : files_->names()) {
    files_->info(name);
    used_.emplace(name, false);
  }
}

bool Checkpoint::has(const std::string& name) const { return used_.count(name) != 0; }

void Checkpoint::expect(const std::string& name, at::IntArrayRef shape) const {
  if (!has(name)) {
    refuse(Code::TENSOR, "the model must have ", in_quotes(name), " of shape ", shape_text(shape),
           " but the file lacks it");
  }
  const std::vector<std::int64_t> stored = files_->info(name).shape;
  if (at::IntArrayRef(stored) != shape) {
    refuse(Code::TENSOR, in_quotes(name), " must have shape ", shape_text(shape), ", as config.json says, but has ",
           shape_text(stored));
  }
}

Tensor Checkpoint::read(const std::string& name, at::IntArrayRef shape) {
  expect(name, shape);
  const ElementType type = files_->info(name).type;
  if (!rotary::dtype_of(type) && type != ElementType::f64) {
    refuse(Code::TENSOR, in_quotes(name), " must be F32, F16, BF16 or F64 but is ", rotary::name(type));
  }
  used_[name] = true;
  return torch_tensor(files_->read(name)).to(at::kFloat);
}

void Checkpoint::read_into(const Stored& stored) {
  const at::NoGradGuard no_grad;
  const Tensor& to = stored.parameter;
  Tensor values = read(stored.name, to.sizes());
  if (stored.heads > 0) {
    values = values.view({stored.heads, 3, to.size(0) / (3 * stored.heads), -1}).transpose(0, 1).reshape(to.sizes());
  }
  to.copy_(values);
}

std::vector<std::string> Checkpoint::unused() const {
  std::vector<std::string> names;
  for (const auto& [name, used] : used_) {
    if (!used) names.push_back(name);
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
    refuse(Code::DTYPE, in_quotes(tensor.name), " must be F32, F16, BF16, F64, an integer or BOOL but is ",
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
