#include "tensors.h"

#include <limits>

#include "files/tensors/formats.h"
#include "text.h"

namespace rotary::cli {

bool is_npy(const std::filesystem::path& path) { return files::format_to_write(path) == files::Format::npy; }

TensorFile load(const std::filesystem::path& path) { return {read_tensors(path), tensor_metadata(path)}; }

void save(const std::filesystem::path& path, const TensorFile& file) {
  write_tensors(path, file.tensors, file.metadata);
}

void check_output(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw Error(Code::FILE, "[output] the folder must exist but got '" + path.string() + "'");
  }
}

Heads heads_of(Tensor& tensor, const std::string& layout) {
  const std::vector<std::int64_t>& size = tensor.shape;
  if (size.size() != 3 && size.size() != 4) {
    throw Error(Code::SHAPE,
                "[apply] " + label(tensor) +
                    " must have 4 dimensions (bthd, bhtd, tbhd) or 3 (thd: tokens, heads, head_dim) but got " +
                    shape_text(size));
  }
  const std::string used = !layout.empty() ? layout : size.size() == 4 ? "bthd" : "thd";
  if (used.size() != size.size()) {
    throw Error(Code::SHAPE, "[apply] layout " + used + " needs " + std::to_string(used.size()) + " dimensions but " +
                                 label(tensor) + " is " + shape_text(size));
  }
  const std::optional<DType> dtype = dtype_of(tensor.type);
  if (!dtype) {
    throw Error(Code::DTYPE, "[apply] " + label(tensor) + " must be F32, F16 or BF16 but got " + name(tensor.type));
  }
  if (size.back() > std::numeric_limits<int>::max()) {
    throw Error(Code::SHAPE, "[apply] head_dim must fit 32 bits but " + label(tensor) + " is " + shape_text(size));
  }
  const int head_dim = static_cast<int>(size.back());
  Heads heads{tensor.data.data(), *dtype, {}};
  if (used == "bthd") heads.layout = bthd(size[0], size[1], size[2], head_dim);
  if (used == "bhtd") heads.layout = bhtd(size[0], size[1], size[2], head_dim);
  if (used == "tbhd") heads.layout = tbhd(size[0], size[1], size[2], head_dim);
  if (used == "thd") heads.layout = thd(size[0], size[1], head_dim);
  return heads;
}

Tensor load_rows(const std::filesystem::path& path, const std::string& name) {
  Tensor tensor = read_tensor(path, name);
  if (tensor.type != ElementType::f32) {
    throw Error(Code::DTYPE, "[apply] " + name + " must be F32 but got " + rotary::name(tensor.type));
  }
  if (tensor.shape.size() != 2) {
    throw Error(Code::SHAPE, "[apply] " + name + " must be [rows, pairs] but got " + shape_text(tensor.shape));
  }
  return tensor;
}

std::string label(const TensorInfo& tensor) {
  return tensor.name.empty() ? "the tensor" : "tensor '" + tensor.name + "'";
}

}  // namespace rotary::cli
