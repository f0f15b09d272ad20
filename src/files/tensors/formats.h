// The formats of files of tensors: by the ending of a name, by the first bytes; streams, which have no ending; and the
// parts of an .npy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/text/io.h"
#include "rotary/tensors.h"

namespace rotary::files {

enum class Format { safetensors, npy };

// Both throw FORMAT for any other ending; for those of numpy.savez and torch.save the sentence has the line of Python
// that writes safetensors. format_to_read throws FILE if the ending is unknown and there is no such file.
Format format_to_read(const std::filesystem::path&);
Format format_to_write(const std::filesystem::path&);

// Whether the ending is that of a file of tensors, be it one that format_to_read refuses (.npz, .pt and their like).
bool names_tensors(const std::filesystem::path&);

// By the first bytes; empty if they are of neither format. A zip archive counts as safetensors, whose reader refuses it
// with the line of Python.
std::optional<Format> format_of(std::span<const std::byte>) noexcept;

// The format that a file's first bytes show, where it is not the one of its name, as words for an error sentence: "a
// zip archive, as .npz and PyTorch's .pt are". Empty if it is not known.
std::string known_content(const InputFile&);

// ---- streams ----

// Reads to the end; path "-" is standard input. A stream that begins as neither format does is read up to `most` bytes.
// Throws FILE.
std::vector<std::byte> read_stream(const std::filesystem::path& path, std::size_t most = SIZE_MAX);
std::string stream_name(const std::filesystem::path& path);  // for error sentences: "standard input", or path

// Throws FILE.
void write_to_standard_output(std::span<const std::byte>);

// ---- npy ----

// Reads only the header and checks it against the file's length. Throws FILE, FORMAT.
TensorInfo npy_info(const std::filesystem::path&);

// What stands in the file before the elements. Throws FORMAT (a type that numpy lacks), SHAPE.
std::string npy_header(const Tensor&);

// The tensor of an .npy to write. Throws FORMAT if there is not exactly one, or if there is metadata.
const Tensor& only_of_npy(std::span<const Tensor>, const std::map<std::string, std::string>& metadata);

}  // namespace rotary::files
