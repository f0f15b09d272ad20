// A file or stream of tensors, read tensor by tensor.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats.h"
#include "rotary/heads.h"
#include "rotary/tensors.h"

namespace rotary::files {

// Whether the name is "-", which stands for standard input or output.
bool is_dash(const std::filesystem::path&);

// Whether InputTensors reads it as a stream: "-", or a pipe or terminal, as /dev/stdin and the /dev/fd/63 of a shell's
// <(...).
bool is_pipe(const std::filesystem::path&);

// A file of tensors that is read tensor by tensor.
class InputTensors {
 public:
  // "-" is standard input; of that and of other streams (is_pipe) the first bytes tell the format, of a file its
  // ending.
  explicit InputTensors(const std::filesystem::path&);
  InputTensors(std::vector<std::byte> whole, std::string name);  // bytes of a stream

  Format format() const noexcept { return npy_ ? Format::npy : Format::safetensors; }
  const std::string& name() const noexcept { return name_; }  // for error sentences
  const std::vector<TensorInfo>& infos() const noexcept { return infos_; }
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  Tensor read(const std::string& name);  // of an .npy the only one, which can be read once

  // Writes the file with `changed` in the place of the tensors of their names, of an .npy its only one: the whole file
  // or nothing. "-" is standard output. Of the other tensors only a piece is in memory.
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

// "tensor 'q'", or "the tensor" of an .npy.
std::string label(const TensorInfo&);

// ---- how the dimensions of a tensor are read as batch, tokens, heads and head_dim: by a word ----

//   bthd, bhtd, tbhd                b batch, t tokens, h heads, d head_dim
//   thd, htd                        without batch
//   hd                              one token
//   td                              one head
//   flat                            [batch, tokens, heads * head_dim] or [tokens, heads * head_dim]
extern const std::vector<std::string> layout_words;

// The layout of a tensor read by that word; flat needs head_dim, above 0, and the others take the last dimension. What
// names the operation stands in brackets in error sentences. Throws SHAPE.
Layout layout_of(std::string_view operation, const TensorInfo&, const std::string& word, int head_dim = 0);

}  // namespace rotary::files
