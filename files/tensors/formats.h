// Shared by the readers of tensors: the formats of files, by the suffix of a name and by the first bytes; streams,
// which have no suffix; the parts of an .npy; the element types; and a file or stream that is read tensor by tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/heads.h"
#include "rotary/tensors.h"
#include "text/io.h"

namespace rotary::files {

enum class Format { safetensors, npy };

// The format by a name's suffix. Both throw FORMAT for other suffixes, with a line of Python that writes safetensors
// for those of numpy.savez and torch.save. format_to_read throws FILE for an unknown suffix if there is no such file.
Format format_to_read(const std::filesystem::path&);
Format format_to_write(const std::filesystem::path&);

// Whether the suffix is that of a tensor file, including those that format_to_read refuses (.npz, .pt and similar).
bool names_tensors(const std::filesystem::path&);

// The format by the first bytes; empty if they are of neither. A zip archive counts as safetensors, whose reader
// refuses it with the line of Python.
std::optional<Format> format_of(std::span<const std::byte>) noexcept;

// Words for an error sentence about the format of a file's first bytes, if the name has another: "a zip archive, as
// .npz and PyTorch's .pt are". Empty if it is unknown.
std::string known_content(const InputFile&);

// ---- streams ----

// Reads to the end; path "-" is standard input. A stream that begins like neither format is read up to `most` bytes.
// Throws FILE.
std::vector<std::byte> read_stream(const std::filesystem::path& path, std::size_t most = SIZE_MAX);
std::string stream_name(const std::filesystem::path& path);  // for error sentences: "standard input", or path

// Throws FILE.
void write_to_standard_output(std::span<const std::byte>);

// ---- npy ----

// Reads only the header and checks it against the file's length. Throws FILE, FORMAT.
TensorInfo npy_info(const std::filesystem::path&);

// The bytes of the file before the elements. Throws FORMAT (a type that numpy lacks), SHAPE.
std::string npy_header(const Tensor&);

// The tensor to write as an .npy. Throws FORMAT if there is not exactly one, or if there is metadata.
const Tensor& only_of_npy(std::span<const Tensor>, const std::map<std::string, std::string>& metadata);

// ---- element types, and sizes checked for overflow ----

constexpr std::size_t max_dimensions = 64;  // numpy's limit

std::optional<ElementType> find_element_type(std::string_view name) noexcept;  // by its safetensors name
// By its npy name without the byte order, as in "f4". numpy_name is nullptr if numpy has no name for the type.
std::optional<ElementType> find_numpy_type(std::string_view name) noexcept;
const char* numpy_name(ElementType) noexcept;

// elements * bits_of(type). Empty if a size is negative, or if the product of the sizes other than 0 does not fit in 64
// bits, because the strides of such a shape would overflow.
std::optional<std::uint64_t> checked_bits(ElementType, std::span<const std::int64_t> shape) noexcept;

std::vector<double> numbers_of(const Tensor&);  // the elements of a tensor of a float type

std::uint64_t little_endian(std::span<const std::byte>) noexcept;  // from up to 8 bytes

// Before writing: checks that the shape is valid and that the data fills it exactly. Throws SHAPE.
void check_whole(const char* operation, const Tensor&);

// ---- input ----

// Whether the name is "-", which stands for standard input or output.
bool is_dash(const std::filesystem::path&);

// Whether InputTensors reads the path as a stream: "-", or a pipe or terminal such as /dev/stdin and the /dev/fd/63 of
// a shell's <(...).
bool is_pipe(const std::filesystem::path&);

// A file of tensors that is read tensor by tensor.
class InputTensors {
 public:
  // "-" is standard input. The format of streams (is_pipe) follows from their first bytes, that of files from the
  // suffix.
  explicit InputTensors(const std::filesystem::path&);
  InputTensors(std::vector<std::byte> whole, std::string name);  // from the bytes of a stream

  Format format() const noexcept { return npy_ ? Format::npy : Format::safetensors; }
  const std::string& name() const noexcept { return name_; }  // for error sentences
  const std::vector<TensorInfo>& infos() const noexcept { return infos_; }
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  Tensor read(const std::string& name);  // an .npy has one tensor, which can be read once

  // Writes the file with `changed` replacing the tensors of the same names, or an .npy's only one: the whole file or
  // nothing. "-" is standard output. Other tensors are in memory only in pieces.
  void save_changed(const std::filesystem::path&, std::span<const Tensor* const> changed,
                    const std::map<std::string, std::string>& metadata) const;

 private:
  void take(std::vector<std::byte> whole);
  void list();

  std::string name_;
  std::optional<Tensor> npy_;
  std::optional<SafetensorsFile> safetensors_;
  std::vector<TensorInfo> infos_;
  std::map<std::string, std::string> metadata_;
};

// "tensor 'q'", or "the tensor" for an .npy.
std::string label(const TensorInfo&);

// ---- the words for layouts, by which dimensions are read as batch, tokens, heads and head_dim ----

//   bthd, bhtd, tbhd                b batch, t tokens, h heads, d head_dim
//   thd, htd                        without batch
//   hd                              one token
//   td                              one head
//   flat                            [batch, tokens, heads * head_dim] or [tokens, heads * head_dim]
extern const std::vector<std::string> layout_words;

// The layout of a tensor by that word; flat needs a head_dim above 0, the others use the last dimension. operation is
// the word in brackets in error sentences. Throws SHAPE.
Layout layout_of(std::string_view operation, const TensorInfo&, const std::string& word, int head_dim = 0);

}  // namespace rotary::files
