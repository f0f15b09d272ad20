// Archives of tensors: numpy's .npz, and what torch.save writes (.pt). Both are zip files whose entries lie in them as
// they are, so that a tensor is a place in the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "files/text/io.h"
#include "rotary/tensors.h"

namespace rotary::files {

// A tensor that lies in a file.
struct StoredTensor {
  TensorInfo info;
  std::uint64_t begin = 0;                 // of its first element
  std::vector<std::int64_t> strides = {};  // in elements, none negative; empty: row-major
  bool big_endian = false;
};
// Row-major and little-endian.
Tensor read_stored(const InputFile&, const StoredTensor&);

// Bytes [begin, end) of a file as an .npy. where: begins error sentences. Throws FORMAT.
StoredTensor npy_within(const InputFile&, std::uint64_t begin, std::uint64_t end, const std::string& where);

// The tensors of an archive, in its order; keys and indices of nested dicts, lists and tuples are joined by dots. No
// pickle is run: plain values beside the tensors are left out, and every other object is refused. Throws FORMAT.
std::vector<StoredTensor> tensors_of_archive(const InputFile&);

}  // namespace rotary::files
