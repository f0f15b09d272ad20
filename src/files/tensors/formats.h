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

// Throws FORMAT for any other ending. Archives (.npz, .pt and their like) are read as safetensors files are.
Format format_to_read(const std::filesystem::path&);
Format format_to_write(const std::filesystem::path&);  // the sentence says how to make other frameworks' files

bool names_tensors(const std::filesystem::path&);  // whether the ending is that of a file of tensors that is read here
bool names_archive(const std::filesystem::path&);  // whether it is .npz or one of PyTorch's
bool is_archive(std::span<const std::byte> begin) noexcept;  // by the first bytes

// By the first bytes; empty if they are of neither format; an archive's are safetensors.
std::optional<Format> format_of(std::span<const std::byte>) noexcept;

// What the file's first bytes show it to be, where it is not what its name says, for error sentences: "a zip archive,
// as .npz and PyTorch's .pt are". Empty: nothing that is known.
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

// What numpy.savez writes of these tensors, less than 4 GiB. Atomic. Throws FILE, FORMAT (a type that numpy lacks),
// SHAPE (a file of 4 GiB or more).
void write_npz(const std::filesystem::path&, std::span<const Tensor>);

}  // namespace rotary::files
