#include "tensors.h"

#include "description.h"
#include "system.h"
#include "tensors/formats.h"
#include "tensors/safetensors_header.h"
#include "text.h"
#include "text/descriptors.h"
#include "text/io.h"
#include "text/paths.h"
#include "values/fail.h"

namespace rotary::cli {

files::Format output_format(std::string_view operation, const std::filesystem::path& path) {
  if (path == "/dev/stdout" || path == "/proc/self/fd/1") {
    fail(Code::FORMAT, operation,
         "standard output must be written as --output - but got '" + files::path_text(path) + "'");
  }
  return files::format_to_write(path);
}

void save(const std::filesystem::path& path, const std::vector<Tensor>& tensors,
          const std::map<std::string, std::string>& metadata) {
  if (!is_dash(path)) return write_tensors(path, tensors, metadata);
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  const std::string header = files::make_header(std::span<const Tensor* const>(pointers), metadata);
  files::write_to_standard_output(files::bytes_of(header));
  for (const Tensor& tensor : tensors) files::write_to_standard_output(tensor.data);
}

void check_output(const std::filesystem::path& path, bool json) {
  if (json && is_dash(path))
    throw UsageError("--json and --output - both write to standard output: name an output file");
  if (is_dash(path)) {
    if (files::is_terminal(files::standard_output))
      fail(Code::FILE, "output", "standard output must be a pipe or a file, for tensors, but is a terminal");
    return;
  }
  std::error_code ignored;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, ignored))
    fail(Code::FILE, "output", "the folder must exist but got '", files::path_text(path), "'");
  if (std::filesystem::is_directory(path, ignored))
    fail(Code::FILE, "output", "the output must be a file but got the folder '", files::path_text(path), "'");
}

Tensor load_rows(std::string_view operation, const std::filesystem::path& path, const std::string& name) {
  Tensor tensor = read_tensor(path, name);
  const std::string what = name + " of " + files::path_text(path);
  if (tensor.type != ElementType::f32)
    fail(Code::DTYPE, operation, what + " must be F32 but got " + rotary::name(tensor.type));
  if (tensor.shape.size() != 2)
    fail(Code::SHAPE, operation, what + " must be [rows, pairs] but got " + shape_text(tensor.shape));
  for (const float x : tensor.as<float>()) {
    if (!std::isfinite(x)) fail(Code::VALUE, operation, what + " must be finite but got " + std::to_string(x));
  }
  return tensor;
}

}  // namespace rotary::cli
