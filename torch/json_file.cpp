#include "torch/json_file.h"

#include "rotary/error.h"
#include "src/files/io.h"

namespace rotary_torch {

std::string json_file_text(const char* operation, const std::filesystem::path& path) {
  const rotary::files::InputFile file(operation, path);
  if (file.size() > (16u << 20)) {
    throw rotary::Error("JSON", "[" + std::string(operation) + "] a JSON file must be at most 16 MB but " +
                                    rotary::files::in_quotes(path.string()) + " has " + std::to_string(file.size()) +
                                    " bytes");
  }
  return file.text();
}

}  // namespace rotary_torch
