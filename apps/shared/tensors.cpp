#include "tensors.h"

#include <limits>

#include "files/tensors/npy.h"
#include "files/tensors/safetensors_header.h"
#include "files/tensors/stream.h"
#include "files/text/descriptors.h"
#include "files/text/io.h"
#include "files/text/paths.h"
#include "system.h"
#include "text.h"

namespace rotary::cli {

namespace {

[[noreturn]] void fail_in(std::string_view operation, Code code, const std::string& sentence) {
  throw Error(code, "[" + std::string(operation) + "] " + sentence);
}

std::size_t dimensions_of(const std::string& word) { return word.size(); }

}  // namespace

const std::vector<std::string> layout_words = {"bthd", "bhtd", "tbhd", "thd", "htd", "hd", "td", "flat"};

bool is_npy(const std::filesystem::path& path) { return files::format_to_write(path) == files::Format::npy; }

bool is_dash(const std::filesystem::path& path) { return path == "-"; }

bool is_pipe(const std::filesystem::path& path) { return is_dash(path) || names_pipe(path); }

files::Format output_format(std::string_view operation, const std::filesystem::path& path) {
  if (path == "/dev/stdout" || path == "/proc/self/fd/1") {
    fail_in(operation, Code::FORMAT,
            "to write to standard output say --output - but got '" + files::path_text(path) + "'");
  }
  return files::format_to_write(path);
}

InputTensors::InputTensors(const std::filesystem::path& path) : name_(files::stream_name(path)) {
  if (is_pipe(path)) {
    take(files::read_stream(path));
  } else if (files::format_to_read(path) == files::Format::npy) {
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
  if (files::format_of(whole) == files::Format::npy) {
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
    files::write_to_standard_output(files::bytes_of(files::npy_header(*changed.front())));
    files::write_to_standard_output(changed.front()->data);
  } else if (npy_) {
    write_npy(path, *changed.front());
  } else if (is_dash(path)) {
    safetensors_->copy(files::write_to_standard_output, changed, metadata);
  } else {
    files::write_whole("safetensors", path,
                       [&](const files::Sink& sink) { safetensors_->copy(sink, changed, metadata); });
  }
}

TensorFile load(const std::filesystem::path& path) {
  InputTensors input(path);
  TensorFile file{{}, input.metadata(), input.format()};
  for (const TensorInfo& info : input.infos()) file.tensors.push_back(input.read(info.name));
  return file;
}

void save(const std::filesystem::path& path, const TensorFile& file) {
  if (!is_dash(path)) return write_tensors(path, file.tensors, file.metadata);
  std::string header;
  if (file.format == files::Format::npy) {
    header = files::npy_header(files::only_of_npy(file.tensors, file.metadata));
  } else {
    std::vector<const Tensor*> pointers;
    for (const Tensor& tensor : file.tensors) pointers.push_back(&tensor);
    header = files::make_header(std::span<const Tensor* const>(pointers), file.metadata);
  }
  files::write_to_standard_output(files::bytes_of(header));
  for (const Tensor& tensor : file.tensors) files::write_to_standard_output(tensor.data);
}

void check_output(const std::filesystem::path& path) {
  if (is_dash(path)) {
    if (files::is_terminal(files::standard_output)) {
      throw Error(Code::FILE, "[output] standard output must be a pipe or a file, for tensors, but is a terminal");
    }
    return;
  }
  std::error_code ignored;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw Error(Code::FILE, "[output] the folder must exist but got '" + files::path_text(path) + "'");
  }
}

Layout layout_of(std::string_view operation, const TensorInfo& tensor, const std::string& word, int head_dim) {
  const std::vector<std::int64_t>& size = tensor.shape;
  const bool flat = word == "flat";
  if (flat ? size.size() != 2 && size.size() != 3 : size.size() != dimensions_of(word)) {
    fail_in(operation, Code::SHAPE,
            "layout " + word + " needs " + (flat ? "2 or 3" : std::to_string(dimensions_of(word))) +
                " dimensions but " + label(tensor) + " is " + shape_text(size));
  }
  if (size.back() > std::numeric_limits<int>::max() && !flat) {
    fail_in(operation, Code::SHAPE, "head_dim must fit 32 bits but " + label(tensor) + " is " + shape_text(size));
  }
  if (flat) {
    if (head_dim < 1) fail_in(operation, Code::SHAPE, "layout flat needs a CONFIG, which says head_dim, but got none");
    if (size.back() % head_dim != 0) {
      fail_in(operation, Code::SHAPE,
              "layout flat needs a last dimension that is a multiple of head_dim " + std::to_string(head_dim) +
                  " but " + label(tensor) + " is " + shape_text(size));
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

Heads heads_of(std::string_view operation, Tensor& tensor, const std::string& word) {
  const std::size_t dimensions = tensor.shape.size();
  if (word.empty() && dimensions != 3 && dimensions != 4) {
    fail_in(operation, Code::SHAPE,
            label(tensor) + " must have 4 dimensions (bthd, bhtd, tbhd) or 3 (thd: tokens, heads, head_dim) but got " +
                shape_text(tensor.shape));
  }
  const Layout layout = layout_of(operation, tensor, !word.empty() ? word : dimensions == 4 ? "bthd" : "thd");
  const std::optional<DType> dtype = dtype_of(tensor.type);
  if (!dtype) {
    fail_in(operation, Code::DTYPE, label(tensor) + " must be F32, F16 or BF16 but got " + name(tensor.type));
  }
  return {tensor.data.data(), *dtype, layout};
}

Tensor load_rows(std::string_view operation, const std::filesystem::path& path, const std::string& name) {
  Tensor tensor = read_tensor(path, name);
  const std::string what = name + " of " + files::path_text(path);
  if (tensor.type != ElementType::f32) {
    fail_in(operation, Code::DTYPE, what + " must be F32 but got " + rotary::name(tensor.type));
  }
  if (tensor.shape.size() != 2) {
    fail_in(operation, Code::SHAPE, what + " must be [rows, pairs] but got " + shape_text(tensor.shape));
  }
  return tensor;
}

std::string label(const TensorInfo& tensor) {
  return tensor.name.empty() ? "the tensor" : "tensor '" + tensor.name + "'";
}

}  // namespace rotary::cli
