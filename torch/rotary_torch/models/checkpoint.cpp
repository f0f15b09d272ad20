#include "rotary_torch/models/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>

#include "models/families.h"
#include "rotary_torch/op/refusal.h"
#include "tensors/checkpoint.h"
#include "text/io.h"
#include "values/number_text.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;
using rotary::ElementType;
using rotary::detail::shape_text;
using rotary::files::in_quotes;
using rotary::files::words;
namespace fs = std::filesystem;

constexpr Refusal refuse_checkpoint{"checkpoint"};

struct TypePair {
  ElementType file;
  at::ScalarType torch;
};
constexpr TypePair type_pairs[] = {
    {ElementType::f32, at::kFloat},   {ElementType::f16, at::kHalf},   {ElementType::bf16, at::kBFloat16},
    {ElementType::f64, at::kDouble},  {ElementType::i64, at::kLong},   {ElementType::i32, at::kInt},
    {ElementType::i16, at::kShort},   {ElementType::i8, at::kChar},    {ElementType::u8, at::kByte},
    {ElementType::u16, at::kUInt16},  {ElementType::u32, at::kUInt32}, {ElementType::u64, at::kUInt64},
    {ElementType::boolean, at::kBool}};

}  // namespace

Checkpoint::Checkpoint(const fs::path& path, TensorNames names) : names_(std::move(names)) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) && !rotary::files::weights_in(path)) {
    refuse_checkpoint(
        Code::FILE, path.string(), " must hold model.safetensors or model.safetensors.index.json but has neither",
        fs::exists(path / "pytorch_model.bin", ignored) ? " (pytorch_model.bin is not read: save it as safetensors)"
                                                        : "");
  }
  files_ = std::make_shared<const rotary::files::Checkpoint>(path);
  for (const std::string& name : files_->names()) {
    files_->info(name);
    used_.emplace(name, false);
  }
  if (names_.trunk.empty()) return;
  for (const std::string& prefix : {names_.prefix, std::string("transformer.")}) {
    if (prefix_.empty() && has_any(prefix)) prefix_ = prefix;  // "transformer.": question answering, in any family
  }
}

bool Checkpoint::has(const std::string& name) const { return used_.count(name) != 0; }

bool Checkpoint::has_any(const std::string& prefix) const {
  const auto found = used_.lower_bound(prefix);
  return found != used_.end() && found->first.starts_with(prefix);
}

bool Checkpoint::has_head() const {
  return std::any_of(names_.head.begin(), names_.head.end(), [this](const auto& part) {
    const std::string name = spelled("", part.second, "");
    return has(name) || has_any(name + ".");
  });
}

// The first of the alternatives that the file has, whole or as a module; else the first of all.
std::string Checkpoint::spelled(const std::string& before, std::string_view alternatives,
                                const std::string& after) const {
  std::string all(alternatives), first;
  std::replace(all.begin(), all.end(), '|', ' ');
  // Files converted from TensorFlow long ago use the names gamma and beta.
  const std::string old = after == ".weight" ? ".gamma" : ".beta";
  for (const std::string_view word : words(all)) {
    const std::string name = before + std::string(word);
    if (has(name + after) || (after.empty() && has_any(name + "."))) return name + after;
    if (!after.empty() && has(name + old)) return name + old;
    if (first.empty()) first = name + after;
  }
  return first;
}

// The names of the tensors of a parameter's parts, without those that may be missing and are.
std::vector<std::string> Checkpoint::names_of(const std::string& parameter) const {
  constexpr std::string_view stack = "layers.";
  std::string ours = parameter, number;
  if (ours.starts_with(stack) && !names_.trunk.empty()) {
    const std::size_t end = ours.find('.', stack.size()) + 1;
    number = "." + ours.substr(stack.size(), end - stack.size());
    ours.erase(0, end);
  }
  for (const auto* names : {&names_.trunk, &names_.head}) {
    for (const std::size_t end : {ours.size(), std::min(ours.rfind('.'), ours.size())}) {  // the parameter, its module
      const auto found = names->find(ours.substr(0, end));
      if (found == names->end()) continue;
      std::string before = names == &names_.trunk ? prefix_ : "";
      if (!number.empty()) before += names_.trunk.at("layers") + number;
      std::vector<std::string> all;
      for (std::string_view word : words(found->second)) {
        const bool may_be_missing = word.ends_with('?');
        if (may_be_missing) word.remove_suffix(1);
        all.push_back(spelled(before, word, ours.substr(end)));
        if (may_be_missing && !has(all.back())) all.pop_back();
      }
      return all;
    }
  }
  return {parameter};
}

std::vector<Stored> Checkpoint::rows(const torch::nn::Module& model) const {
  std::vector<Stored> rows;
  for (const auto& item : model.named_parameters()) {
    const std::vector<std::string> names = names_of(item.key());
    const bool fused = names.size() == 1 && item.key().find(".qkv.") != std::string::npos;
    const Tensor& parameter = item.value();
    std::int64_t first = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto left = static_cast<std::int64_t>(names.size() - i);
      const std::int64_t count = left == 3 ? names_.query_rows : (parameter.size(0) - first) / left;
      rows.push_back({names[i], parameter.narrow(0, first, count), fused ? names_.fused_heads : 0});
      first += count;
    }
  }
  return rows;
}

void Checkpoint::expect(const std::string& name, at::IntArrayRef shape) const {
  refuse_checkpoint.unless(has(name), Code::TENSOR, "the model must have ", in_quotes(name), " of shape ",
                           shape_text(shape), " but the file lacks it");
  const std::vector<std::int64_t> stored = files_->info(name).shape;
  refuse_checkpoint.unless(at::IntArrayRef(stored) == shape, Code::TENSOR, in_quotes(name), " must have shape ",
                           shape_text(shape), ", as config.json says, but has ", shape_text(stored));
}

bool Checkpoint::unties(const std::string& head, const std::string& embedding, at::IntArrayRef shape) {
  const std::string own = name_of(head);
  return has(own) && !at::equal(read(own, shape), read(name_of(embedding), shape));
}

Tensor Checkpoint::read(const std::string& name, at::IntArrayRef shape, at::ScalarType type) {
  expect(name, shape);
  const ElementType stored = files_->info(name).type;
  refuse_checkpoint.unless(rotary::dtype_of(stored) || stored == ElementType::f64, Code::TENSOR, in_quotes(name),
                           " must be F32, F16, BF16 or F64 but is ", rotary::name(stored));
  used_[name] = true;
  return torch_tensor(files_->read(name)).to(type);
}

void Checkpoint::read_into(const Stored& stored) {
  const at::NoGradGuard no_grad;
  const Tensor& to = stored.parameter;
  Tensor values = read(stored.name, to.sizes());
  if (const std::int64_t heads = stored.fused_heads; heads > 0)
    values = values.view({heads, 3, to.size(0) / (3 * heads), -1}).transpose(0, 1).reshape(to.sizes());
  to.copy_(values);
}

std::vector<std::string> Checkpoint::unused() const {
  std::vector<std::string> names;
  for (const auto& [name, used] : used_) {
    if (!used) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Checkpoint::foreign() const {
  // Masks and tables that files store with the weights but which are computed here, and a bias that they have twice.
  constexpr std::string_view buffers[] = {
      "rotary_emb.inv_freq", "attention.bias",         "attn.bias",       "masked_bias", "position_ids",
      "embed_positions",     "embed_positions.weight", "predictions.bias"};
  std::vector<std::string> sentences;
  for (const std::string& name : unused()) {
    const bool is_buffer = std::any_of(std::begin(buffers), std::end(buffers), [&name](std::string_view end) {
      return name == end || (name.ends_with(end) && name[name.size() - end.size() - 1] == '.');
    });
    if (is_buffer) continue;
    const std::vector<std::string_view> inside = words(names_.inside);
    const bool is_ours = names_.trunk.empty() || (!is_base() && name.starts_with(prefix_)) ||
                         std::any_of(inside.begin(), inside.end(), [&](auto word) { return name.starts_with(word); });
    if (is_ours && (names_.foreign.empty() || !name.starts_with(names_.foreign)))
      refuse_checkpoint(Code::TENSOR, "the model that config.json describes has no ", in_quotes(name));
    sentences.push_back("the file has " + in_quotes(name) + " outside the model: not used");
  }
  return sentences;
}

rotary::Tensor file_tensor(std::string name, const Tensor& tensor) {
  const auto pair = std::find_if(std::begin(type_pairs), std::end(type_pairs),
                                 [&](const TypePair& p) { return p.torch == tensor.scalar_type(); });
  if (pair == std::end(type_pairs)) {
    refuse_checkpoint(Code::DTYPE, in_quotes(name), " must be f32, f16, bf16, f64, an integer or bool but is ",
                      tensor.scalar_type());
  }
  const Tensor dense = tensor.detach().to(at::kCPU).contiguous();
  rotary::Tensor copy;
  copy.name = std::move(name);
  copy.type = pair->file;
  copy.shape = dense.sizes().vec();
  copy.bytes = dense.nbytes();
  const auto* begin = static_cast<const std::byte*>(dense.const_data_ptr());
  copy.data.assign(begin, begin + dense.nbytes());
  return copy;
}

Tensor torch_tensor(const rotary::Tensor& tensor) {
  const auto pair = std::find_if(std::begin(type_pairs), std::end(type_pairs),
                                 [&](const TypePair& p) { return p.file == tensor.type; });
  if (pair == std::end(type_pairs)) {
    refuse_checkpoint(Code::DTYPE, in_quotes(tensor.name), " must be F32, F16, BF16, F64, an integer or BOOL but is ",
                      rotary::name(tensor.type));
  }
  const Tensor copy = at::empty(tensor.shape, pair->torch);
  if (!tensor.data.empty()) std::memcpy(copy.mutable_data_ptr(), tensor.data.data(), tensor.data.size());
  return copy;
}

void write_tensors(const fs::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  std::vector<rotary::Tensor> copies;
  copies.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) copies.push_back(file_tensor(name, tensor));
  std::vector<const rotary::Tensor*> pointers;
  for (const rotary::Tensor& tensor : copies) pointers.push_back(&tensor);
  rotary::write_safetensors(path, pointers, metadata);
}

}  // namespace rotary_torch
