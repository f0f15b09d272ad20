#include "change.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "text/io.h"
#include "values/fail.h"

namespace rotary::conversion {
namespace {

// A word of the tensor; words are little-endian on every machine.
std::uint32_t word_at(const std::byte* words, std::size_t index) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) word |= std::to_integer<std::uint32_t>(words[4 * index + i]) << 8 * i;
  return word;
}
void or_word_at(std::byte* words, std::size_t index, std::uint32_t bits) {
  for (std::size_t i = 0; i < 4; ++i) words[4 * index + i] |= static_cast<std::byte>(bits >> 8 * i & 0xFF);
}

// Number `index` of a stream of numbers of `bits` bits, of which word i is words[i * step].
std::uint32_t number_at(const std::byte* words, std::size_t step, std::size_t index, unsigned bits) {
  const std::size_t bit = index * bits;
  const auto shift = static_cast<unsigned>(bit % 32);
  std::uint64_t pair = word_at(words, bit / 32 * step);
  if (shift + bits > 32) pair |= std::uint64_t{word_at(words, (bit / 32 + 1) * step)} << 32;
  return static_cast<std::uint32_t>(pair >> shift & ((std::uint64_t{1} << bits) - 1));
}
void put_number(std::byte* words, std::size_t step, std::size_t index, unsigned bits, std::uint32_t number) {
  const std::size_t bit = index * bits;
  const std::uint64_t shifted = std::uint64_t{number} << bit % 32;
  or_word_at(words, bit / 32 * step, static_cast<std::uint32_t>(shifted));
  if (bit % 32 + bits > 32) or_word_at(words, (bit / 32 + 1) * step, static_cast<std::uint32_t>(shifted >> 32));
}

// The place of number i among the eight numbers of a word in AWQ.
constexpr std::array<std::size_t, 8> awq_place = {0, 4, 1, 5, 2, 6, 3, 7};

std::size_t place_of(const Change& change, std::size_t index) {
  return change.axis == Axis::awq_columns ? index / 8 * 8 + awq_place[index % 8] : index;
}

void permute_packed(const Change& change, std::size_t step, const std::byte* in, std::byte* out) {
  const Sources& sources = *change.sources;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto bits = static_cast<unsigned>(change.bits);
    put_number(out, step, place_of(change, i), bits, number_at(in, step, place_of(change, sources[i]), bits));
  }
}

}  // namespace

Sources unchanged(std::int64_t elements) {
  Sources sources(static_cast<std::size_t>(elements));
  std::iota(sources.begin(), sources.end(), std::uint32_t{0});
  return sources;
}

void reorder(Sources& sources, RotatedBlock block, Pairing to) {
  const auto first = static_cast<std::uint32_t>(block.first);
  const auto pairs = static_cast<std::uint32_t>(block.pairs);
  for (std::uint32_t j = 0; j < 2 * pairs; ++j) {
    const std::uint32_t in_interleaved = first + j, in_half = first + j / 2 + (j % 2) * pairs;
    if (to == Pairing::half) {
      sources[in_half] = in_interleaved;
    } else {
      sources[in_interleaved] = in_half;
    }
  }
}

Change inverse(const Change& change) {
  Sources sources(change.sources->size());
  for (std::uint32_t i = 0; i < sources.size(); ++i) sources[(*change.sources)[i]] = i;
  return {change.axis, change.bits, std::make_shared<const Sources>(std::move(sources))};
}

void check_whole_bytes(const TensorInfo& tensor, std::uint64_t bits) {
  if (bits % 8 == 0) return;
  fail(Code::DTYPE, operation, "the rows of a projection must have elements of whole bytes but tensor ",
       files::in_quotes(tensor.name), " is ", name(tensor.type));
}

bool has_size(const TensorInfo& tensor, const Change& change) {
  const auto size = static_cast<std::int64_t>(change.sources->size());
  const std::vector<std::int64_t>& shape = tensor.shape;
  if (change.axis == Axis::rows) {  // for a norm: [heads, head_dim] together
    std::int64_t product = 1;
    for (const std::int64_t extent : shape) {
      product *= extent;
      if (product >= size) break;
    }
    return product == size;
  }
  if (change.axis == Axis::columns) return !shape.empty() && shape.back() == size;
  const bool packed = tensor.type == ElementType::i32 && shape.size() == 2 && can_be_packed(change.bits) &&
                      (change.axis != Axis::awq_columns || change.bits == 4);
  const std::int64_t words = packed ? shape[change.axis == Axis::packed_rows ? 0 : 1] : 0;
  return words <= size && 32 * words == size * change.bits;
}

void stream_changed(const TensorInfo& tensor, const Change& change, const Reader& read, const files::Sink& sink) {
  const auto bytes = static_cast<std::size_t>(tensor.bytes);
  if (bytes == 0) return;
  const Sources& sources = *change.sources;
  const bool rows = change.axis == Axis::rows, whole = change.axis == Axis::packed_rows;
  const std::size_t columns = static_cast<std::size_t>(tensor.shape.back()), element = bits_of(tensor.type) / 8;
  const std::size_t line = rows ? bytes / sources.size() : whole ? bytes : columns * element;
  Bytes in(line), out, all(bytes <= files::piece_bytes ? bytes : 0);  // a list of short rows is read at once
  if (!all.empty()) read(0, all);
  for (std::size_t i = 0; i < bytes / line; ++i) {
    const std::size_t from = (rows ? sources[i] : i) * line;
    if (all.empty())
      read(from, in);
    else
      std::memcpy(in.data(), &all[from], line);
    out.resize(out.size() + line);
    std::byte* const to = out.data() + out.size() - line;
    if (rows) {
      std::memcpy(to, in.data(), line);
    } else if (change.axis == Axis::columns) {
      for (std::size_t c = 0; c < columns; ++c)
        std::memcpy(to + c * element, in.data() + sources[c] * element, element);
    } else {  // numbers in words of a row, or of each column of the whole
      for (std::size_t c = 0; c < (whole ? columns : 1); ++c)
        permute_packed(change, whole ? columns : 1, in.data() + 4 * c, to + 4 * c);
    }
    if (out.size() < files::piece_bytes && i + 1 < bytes / line) continue;
    sink(out);
    out.clear();
  }
}

Bytes changed(const TensorInfo& tensor, const Change& change, const Bytes& bytes) {
  Bytes result;
  const Reader read = [&](std::uint64_t offset, std::span<std::byte> out) {
    std::memcpy(out.data(), bytes.data() + offset, out.size());
  };
  stream_changed(tensor, change, read, [&](auto piece) { result.insert(result.end(), piece.begin(), piece.end()); });
  return result;
}

}  // namespace rotary::conversion
