#include "json_file.h"

#include "json.h"
#include "paths.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {

std::string json_file_text(const char* operation, const InputFile& file) {
  if (file.size() > max_json_bytes) {
    fail(Code::JSON, operation,
         "a JSON file must be at most 16 MB but " + in_quotes(path_text(file.path())) + " has " +
             std::to_string(file.size()) + " bytes");
  }
  return file.text();
}

std::string json_file_text(const char* operation, const std::filesystem::path& path) {
  return json_file_text(operation, InputFile(operation, path));
}

}  // namespace rotary::files
