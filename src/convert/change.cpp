#include "change.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace rotary::convert {
namespace {

using files::piece_bytes;
using Bytes = std::vector<std::byte>;

void stream_rows(const TensorInfo& tensor, const Sources& sources, const Reader& read, const Sink& sink) {
  const std::size_t row = static_cast<std::size_t>(tensor.bytes) / sources.size();
  Bytes in, out;
  for (const Run& run : closed_runs(sources, std::max<std::size_t>(1, piece_bytes / std::max<std::size_t>(1, row)))) {
    in.resize((run.end - run.begin) * row);
    read(run.begin * row, in);
    if (!run.moves) {
      sink(in);
      continue;
    }
    out.resize(in.size());
    for (std::size_t i = run.begin; i < run.end; ++i)
      std::memcpy(&out[(i - run.begin) * row], &in[(sources[i] - run.begin) * row], row);
    sink(out);
  }
}

// Calls permute(in, out) with whole lines of line_bytes each, as many as make a piece.
void stream_lines(const TensorInfo& tensor, std::size_t line_bytes, const Reader& read, const Sink& sink,
                  const std::function<void(const std::byte* in, std::byte* out)>& permute) {
  const std::size_t lines = static_cast<std::size_t>(tensor.bytes) / line_bytes;
  const std::size_t together = std::max<std::size_t>(1, piece_bytes / line_bytes);
  Bytes in, out;
  for (std::size_t line = 0; line < lines; line += together) {
    const std::size_t count = std::min(together, lines - line);
    in.resize(count * line_bytes);
    out.assign(in.size(), std::byte{});
    read(line * line_bytes, in);
    for (std::size_t i = 0; i < count; ++i) permute(&in[i * line_bytes], &out[i * line_bytes]);
    sink(out);
  }
}

// Words are little-endian, whatever the machine.
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

// The place among the eight numbers of a word at which AWQ packs number i.
constexpr std::array<std::size_t, 8> awq_place = {0, 4, 1, 5, 2, 6, 3, 7};

std::size_t place_of(const Change& change, std::size_t index) {
  return change.axis == Axis::awq_columns ? index / 8 * 8 + awq_place[index % 8] : index;
}

void permute_packed(const Change& change, std::size_t step, const std::byte* in, std::byte* out) {
  const Sources& sources = *change.sources;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    put_number(out, step, place_of(change, i), static_cast<unsigned>(change.bits),
               packed_number(change, in, step, sources[i]));
  }
}

void stream_columns(const TensorInfo& tensor, const Sources& sources, const Reader& read, const Sink& sink) {
  const std::size_t element = bits_of(tensor.type) / 8;
  stream_lines(tensor, sources.size() * element, read, sink, [&](const std::byte* in, std::byte* out) {
    for (std::size_t i = 0; i < sources.size(); ++i) std::memcpy(out + i * element, in + sources[i] * element, element);
  });
}

}  // namespace

std::uint32_t packed_number(const Change& change, const std::byte* words, std::size_t step, std::size_t index) {
  return number_at(words, step, place_of(change, index), static_cast<unsigned>(change.bits));
}

std::vector<Run> closed_runs(const Sources& sources, std::size_t least) {
  std::vector<Run> runs;
  Run run;
  std::size_t furthest = 0;  // behind the last place that an element of the run comes from or goes to
  for (std::size_t i = 0; i < sources.size(); ++i) {
    run.moves = run.moves || sources[i] != i;
    furthest = std::max<std::size_t>(furthest, sources[i] + std::size_t{1});
    run.end = i + 1;
    const bool closed = furthest <= run.end;
    if (closed && (run.end - run.begin >= least || run.end == sources.size())) {
      runs.push_back(run);
      run = {.begin = run.end, .end = run.end};
    }
  }
  return runs;
}

void stream_changed(const TensorInfo& tensor, const Change& change, const Reader& read, const Sink& sink) {
  const Sources& sources = *change.sources;
  switch (change.axis) {
    case Axis::rows:
      return stream_rows(tensor, sources, read, sink);
    case Axis::columns:
      return stream_columns(tensor, sources, read, sink);
    case Axis::packed_columns:
    case Axis::awq_columns:
      return stream_lines(tensor, static_cast<std::size_t>(tensor.shape.back()) * 4, read, sink,
                          [&](const std::byte* in, std::byte* out) { permute_packed(change, 1, in, out); });
    case Axis::packed_rows: {
      const auto columns = static_cast<std::size_t>(tensor.shape.back());
      return stream_lines(tensor, static_cast<std::size_t>(tensor.bytes), read, sink,
                          [&](const std::byte* in, std::byte* out) {
                            for (std::size_t c = 0; c < columns; ++c)
                              permute_packed(change, columns, in + 4 * c, out + 4 * c);
                          });
    }
  }
}

}  // namespace rotary::convert
