// Which format a file of tensors has, by the ending of its name.
#pragma once

#include <filesystem>

namespace rotary::files {

enum class Format { safetensors, npy };

// Throws FORMAT for any other ending.
Format format_to_read(const std::filesystem::path&);  // the sentence says how other frameworks' files are converted
Format format_to_write(const std::filesystem::path&);

// By its ending a file of tensors: one that is read, or another framework's.
bool names_tensors(const std::filesystem::path&);

}  // namespace rotary::files
