#include "input.h"

#include <utility>

#include "files/text/descriptors.h"
#include "files/text/io.h"
#include "npy.h"
#include "safetensors_header.h"
#include "stream.h"

namespace rotary::files {

bool is_dash(const std::filesystem::path& path) { return path == "-"; }

bool is_pipe(const std::filesystem::path& path) { return is_dash(path) || names_pipe(path); }

InputTensors::InputTensors(const std::filesystem::path& path) : name_(stream_name(path)) {
  if (is_pipe(path)) {
    take(read_stream(path));
  } else if (format_to_read(path) == Format::npy) {
    npy_ = read_npy(path);
  } else {
    safetensors_.emplace(path);
  }
  list();
}

InputTensors::InputTensors(std::vector<std::byte> whole, std::string name) : name_(std::move(name)) {
  take(std::move(whole));
  list();
}

void InputTensors::take(std::vector<std::byte> whole) {
  if (format_of(whole) == Format::npy) {
    npy_ = parse_npy(std::move(whole), name_);
  } else {
    safetensors_.emplace(std::move(whole), name_);
  }
}

void InputTensors::list() {
  if (npy_) {
    infos_.push_back(*npy_);
  } else {
    infos_ = safetensors_->tensors();
    metadata_ = safetensors_->metadata();
  }
}

Tensor InputTensors::read(const std::string& name) { return npy_ ? std::move(*npy_) : safetensors_->read(name); }

void InputTensors::save_changed(const std::filesystem::path& path, std::span<const Tensor* const> changed,
                                const std::map<std::string, std::string>& metadata) const {
  if (npy_ && is_dash(path)) {
    write_to_standard_output(bytes_of(npy_header(*changed.front())));
    write_to_standard_output(changed.front()->data);
  } else if (npy_) {
    write_npy(path, *changed.front());
  } else if (is_dash(path)) {
    safetensors_->copy(write_to_standard_output, changed, metadata);
  } else {
    write_whole("safetensors", path,
                       [&](const Sink& sink) { safetensors_->copy(sink, changed, metadata); });
  }
}

std::string label(const TensorInfo& tensor) {
  return tensor.name.empty() ? "the tensor" : "tensor '" + tensor.name + "'";
}

}  // namespace rotary::files
