#include "input.h"

#include <limits>
#include <utility>

#include "files/text/descriptors.h"
#include "files/text/io.h"
#include "formats.h"
#include "safetensors_header.h"
#include "values/fail.h"
#include "values/number_text.h"

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
    write_whole("safetensors", path, [&](const Sink& sink) { safetensors_->copy(sink, changed, metadata); });
  }
}

std::string label(const TensorInfo& tensor) {
  return tensor.name.empty() ? "the tensor" : "tensor '" + tensor.name + "'";
}

const std::vector<std::string> layout_words = {"bthd", "bhtd", "tbhd", "thd", "htd", "hd", "td", "flat"};

Layout layout_of(std::string_view operation, const TensorInfo& tensor, const std::string& word, int head_dim) {
  const std::vector<std::int64_t>& size = tensor.shape;
  const bool flat = word == "flat";
  if (flat ? size.size() != 2 && size.size() != 3 : size.size() != word.size()) {
    fail(Code::SHAPE, operation,
         "layout " + word + " needs " + (flat ? "2 or 3" : std::to_string(word.size())) + " dimensions but " +
             label(tensor) + " is " + detail::shape_text(size));
  }
  if (size.back() > std::numeric_limits<int>::max() && !flat) {
    fail(Code::SHAPE, operation, "head_dim must fit 32 bits but " + label(tensor) + " is " + detail::shape_text(size));
  }
  if (flat) {
    if (head_dim < 1) fail(Code::SHAPE, operation, "layout flat needs a CONFIG, which says head_dim, but got none");
    if (size.back() % head_dim != 0) {
      fail(Code::SHAPE, operation,
           "layout flat needs a last dimension that is a multiple of head_dim " + std::to_string(head_dim) + " but " +
               label(tensor) + " is " + detail::shape_text(size));
    }
    const std::int64_t heads = size.back() / head_dim;
    return size.size() == 2 ? thd(size[0], heads, head_dim) : bthd(size[0], size[1], heads, head_dim);
  }
  const int last = static_cast<int>(size.back());
  if (word == "bhtd") return bhtd(size[0], size[1], size[2], last);
  if (word == "tbhd") return tbhd(size[0], size[1], size[2], last);
  if (word == "thd") return thd(size[0], size[1], last);
  if (word == "htd") return bhtd(1, size[0], size[1], last);
  if (word == "hd") return thd(1, size[0], last);
  if (word == "td") return thd(size[0], 1, last);
  return bthd(size[0], size[1], size[2], last);
}

}  // namespace rotary::files
