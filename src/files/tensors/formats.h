// The format of a file of tensors, by the ending of its name.
#pragma once

#include <filesystem>

namespace rotary::files {

enum class Format { safetensors, npy };

// Throws FORMAT for any other ending.
Format format_to_read(const std::filesystem::path&);  // the sentence says how to convert other frameworks' files
Format format_to_write(const std::filesystem::path&);

// Whether the ending is that of a file of tensors, of a format read here or of another framework's.
bool names_tensors(const std::filesystem::path&);

}  // namespace rotary::files
