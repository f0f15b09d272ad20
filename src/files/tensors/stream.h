// Tensors from a pipe and to standard output, where no name says the format.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "formats.h"
#include "rotary/tensors.h"

namespace rotary::files {

struct StreamContents {
  std::vector<Tensor> tensors;
  std::map<std::string, std::string> metadata;
  Format format = Format::safetensors;
};

// Reads to the end; path "-" is standard input. The first bytes tell the format. Throws FILE, FORMAT.
StreamContents read_stream(const std::filesystem::path& path);

// Checks as write_tensors does. Throws FILE, and SHAPE and FORMAT before anything is written.
void write_to_standard_output(Format, std::span<const Tensor>, const std::map<std::string, std::string>& metadata);

}  // namespace rotary::files
