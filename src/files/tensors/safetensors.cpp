#include <algorithm>
#include <numeric>
#include <utility>

#include "files/text/io.h"
#include "files/text/paths.h"
#include "rotary/error.h"
#include "rotary/tensors.h"
#include "safetensors_header.h"

namespace rotary {

using files::in_quotes;

struct [[gnu::visibility("hidden")]] SafetensorsFile::State {  // its functions are no part of the library's interface
  template <class... Whole>
  explicit State(const std::filesystem::path& path, Whole... whole) : file("safetensors", path, std::move(whole)...) {
    read_header();
  }
  void read_header();
  Error error(Code code, const std::string& rule) const {
    return {code, "safetensors", rule, files::path_text(file.path())};
  }
  // Index into tensors, or tensors.size().
  std::size_t index_of(std::string_view name) const noexcept {
    const auto found = std::lower_bound(by_name.begin(), by_name.end(), name,
                                        [this](std::size_t i, std::string_view n) { return tensors[i].name < n; });
    return found != by_name.end() && tensors[*found].name == name ? *found : tensors.size();
  }

  files::InputFile file;
  std::vector<TensorInfo> tensors;
  std::vector<std::uint64_t> begins;  // the place of each tensor's first byte in the file
  std::vector<std::size_t> by_name;
  std::map<std::string, std::string> metadata;
};

void SafetensorsFile::State::read_header() {
  files::FileHeader read = files::read_header(file);
  metadata = std::move(read.header.metadata);
  for (files::Entry& entry : read.header.entries) {
    tensors.push_back(std::move(entry.info));
    begins.push_back(read.data + entry.begin);
  }
  by_name.resize(tensors.size());
  std::iota(by_name.begin(), by_name.end(), std::size_t{0});
  std::sort(by_name.begin(), by_name.end(),
            [this](std::size_t a, std::size_t b) { return tensors[a].name < tensors[b].name; });
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
SafetensorsFile::SafetensorsFile(std::vector<std::byte> whole, const std::string& name)
    : state_(std::make_unique<State>(files::path_of(name), std::move(whole))) {}

SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;

const std::vector<TensorInfo>& SafetensorsFile::tensors() const noexcept { return state_->tensors; }

const std::map<std::string, std::string>& SafetensorsFile::metadata() const noexcept { return state_->metadata; }

const TensorInfo* SafetensorsFile::find(std::string_view name) const noexcept {
  const std::size_t index = state_->index_of(name);
  return index < state_->tensors.size() ? &state_->tensors[index] : nullptr;
}

Tensor SafetensorsFile::read(std::string_view name) const {
  const std::size_t index = state_->index_of(name);
  if (index == state_->tensors.size()) throw state_->error(Code::TENSOR, "no tensor is named " + in_quotes(name));
  Tensor tensor{state_->tensors[index], {}};
  tensor.data.resize(tensor.bytes);
  state_->file.read(state_->begins[index], tensor.data);
  return tensor;
}

void SafetensorsFile::copy(const std::function<void(std::span<const std::byte>)>& sink,
                           std::span<const Tensor* const> changed,
                           const std::map<std::string, std::string>& metadata) const {
  std::vector<const Tensor*> in_place(state_->tensors.size(), nullptr);
  for (const Tensor* tensor : changed) {
    const std::size_t index = state_->index_of(tensor->name);
    const std::string what = "tensor " + in_quotes(tensor->name) + ": ";
    if (index == in_place.size())
      throw state_->error(Code::TENSOR, what + "a changed tensor must be one of the file's");
    const bool whole =
        tensor->data.size() == tensor->bytes &&
        tensor->data.size() * 8 == static_cast<std::uint64_t>(tensor->elements()) * bits_of(tensor->type);
    if (tensor->type != state_->tensors[index].type || !whole)
      throw state_->error(Code::SHAPE, what + "a changed tensor must keep its type, and its data must fit its shape");
    in_place[index] = tensor;
  }
  std::vector<const TensorInfo*> infos;
  for (std::size_t i = 0; i < in_place.size(); ++i)
    infos.push_back(in_place[i] != nullptr ? in_place[i] : &state_->tensors[i]);
  sink(files::bytes_of(files::make_header(infos, metadata)));
  for (std::size_t i = 0; i < infos.size(); ++i) {
    if (in_place[i] != nullptr) {
      sink(in_place[i]->data);
    } else {
      state_->file.copy(state_->begins[i], state_->begins[i] + infos[i]->bytes, sink);
    }
  }
}

void write_safetensors(const std::filesystem::path& path, std::span<const Tensor* const> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = files::make_header(tensors, metadata);
  std::vector<std::span<const std::byte>> parts{files::bytes_of(header)};
  for (const Tensor* tensor : tensors) parts.emplace_back(tensor->data);
  files::write_whole("safetensors", path, parts);
}

}  // namespace rotary
