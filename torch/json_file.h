// The text of a JSON file of a model's folder.
#pragma once

#include <filesystem>
#include <string>

namespace rotary_torch {

// At most 16 MB. operation is the word in brackets of the sentences. Throws FILE, JSON.
std::string json_file_text(const char* operation, const std::filesystem::path&);

}  // namespace rotary_torch
