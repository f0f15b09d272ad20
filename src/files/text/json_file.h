// The text of a JSON file, before it is parsed.
#pragma once

#include <filesystem>
#include <string>

#include "io.h"

namespace rotary::files {

// The whole text, at most 16 MB. operation is the word in brackets in error sentences. Throws FILE, JSON.
std::string json_file_text(const char* operation, const InputFile&);
std::string json_file_text(const char* operation, const std::filesystem::path&);

}  // namespace rotary::files
