// Reading and writing files of tensors by their endings.
#include <optional>
#include <string>
#include <utility>

#include "element_types.h"
#include "files/text/io.h"
#include "files/text/paths.h"
#include "formats.h"
#include "rotary/error.h"
#include "rotary/tensors.h"

namespace rotary {
namespace files {
namespace {

constexpr const char* numpy_line =
    "import numpy, safetensors.numpy as s; s.save_file(dict(numpy.load(\"in.npz\")), \"out.safetensors\")";
constexpr const char* torch_line =
    "import torch, safetensors.torch as s; s.save_file(torch.load(\"in.pt\", weights_only=True), \"out.safetensors\")";

constexpr const char* numpy_back =
    "import numpy, safetensors.numpy as s; numpy.savez(\"out.npz\", **s.load_file(\"in.safetensors\"))";
constexpr const char* torch_back =
    "import torch, safetensors.torch as s; torch.save(s.load_file(\"in.safetensors\"), \"out.pt\")";

struct Foreign {
  const char* ending;
  const char* line;  // of Python that converts it
  const char* back;  // into it
};
constexpr Foreign foreign[] = {{".npz", numpy_line, numpy_back},
                               {".pt", torch_line, torch_back},
                               {".pth", torch_line, torch_back},
                               {".bin", torch_line, torch_back},
                               {".ckpt", torch_line, torch_back}};

std::optional<Format> known_format(const std::filesystem::path& path) {
  if (path.extension() == ".safetensors") return Format::safetensors;
  if (path.extension() == ".npy") return Format::npy;
  return std::nullopt;
}

const Foreign* find_foreign(const std::filesystem::path& path) {
  for (const Foreign& known : foreign) {
    if (path.extension() == known.ending) return &known;
  }
  return nullptr;
}

std::string rule_for(const std::filesystem::path& path) {
  return "[tensors] a file of tensors must end in .safetensors or .npy but got " + in_quotes(files::path_text(path));
}

}  // namespace

Format format_to_read(const std::filesystem::path& path) {
  if (const std::optional<Format> format = known_format(path)) return *format;
  const Foreign* known = find_foreign(path);
  throw Error(Code::FORMAT,
              rule_for(path) + (known == nullptr ? std::string()
                                                 : "; this line of Python converts it: " + std::string(known->line)));
}

Format format_to_write(const std::filesystem::path& path) {
  if (const std::optional<Format> format = known_format(path)) return *format;
  const Foreign* known = find_foreign(path);
  throw Error(Code::FORMAT,
              rule_for(path) + (known == nullptr ? std::string()
                                                 : "; this line of Python converts one: " + std::string(known->back)));
}

bool names_tensors(const std::filesystem::path& path) {
  return known_format(path).has_value() || find_foreign(path) != nullptr;
}

}  // namespace files

std::vector<TensorInfo> tensor_infos(const std::filesystem::path& path) {
  if (files::format_to_read(path) == files::Format::npy) return {files::npy_info(path)};
  return SafetensorsFile(path).tensors();
}

std::map<std::string, std::string> tensor_metadata(const std::filesystem::path& path) {
  if (files::format_to_read(path) == files::Format::npy) {
    files::npy_info(path);
    return {};
  }
  return SafetensorsFile(path).metadata();
}

std::vector<Tensor> read_tensors(const std::filesystem::path& path) {
  std::vector<Tensor> tensors;
  if (files::format_to_read(path) == files::Format::npy) {
    tensors.push_back(read_npy(path));
    return tensors;
  }
  const SafetensorsFile file(path);
  for (const TensorInfo& info : file.tensors()) tensors.push_back(file.read(info.name));
  return tensors;
}

Tensor read_tensor(const std::filesystem::path& path, std::string_view name) {
  return files::format_to_read(path) == files::Format::npy ? read_npy(path) : SafetensorsFile(path).read(name);
}

void write_tensors(const std::filesystem::path& path, std::span<const Tensor> tensors,
                   const std::map<std::string, std::string>& metadata) {
  if (files::format_to_write(path) == files::Format::npy) {
    write_npy(path, files::only_of_npy(tensors, metadata));
    return;
  }
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  write_safetensors(path, pointers, metadata);
}

namespace detail {

void check_elements(const Tensor& tensor, ElementType wanted) {
  const std::string what = "[as] tensor " + files::in_quotes(tensor.name) + " must ";
  if (tensor.type != wanted) {
    throw Error(Code::DTYPE, what + "be " + name(wanted) + " to be seen so but got " + name(tensor.type));
  }
  const std::optional<std::uint64_t> bits = files::checked_bits(tensor.type, tensor.shape);
  if (!bits || *bits / 8 != tensor.data.size()) {
    throw Error(Code::SHAPE, what + "hold the " + (bits ? std::to_string(*bits / 8) : "2^64 or more") +
                                 " bytes of its shape but has " + std::to_string(tensor.data.size()));
  }
}

}  // namespace detail
}  // namespace rotary
