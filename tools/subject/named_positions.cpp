#include "rotary/positions.h"

#include <algorithm>
#include <charconv>

#include "number_files.h"
#include "text/paths.h"
#include "values/fail.h"
#include "values/names.h"
#include "values/number_text.h"

namespace rotary {
namespace {

using Integers = std::vector<std::int64_t>;

[[noreturn]] void refuse(const std::string& rule, std::string_view got) {
  fail(Code::POSITION, "positions", rule, " but got '", got, "'");
}
[[noreturn]] void refuse(const std::string& rule, std::int64_t got) { refuse(rule, std::to_string(got)); }

// Calls use(begin, length) for each sequence.
template <class Use>
void for_each_sequence(std::span<const std::int64_t> cu_seqlens, const Use& use) {
  if (cu_seqlens.empty() || cu_seqlens.front() != 0)
    refuse("the bounds of packed sequences must begin with 0", cu_seqlens.empty() ? -1 : cu_seqlens.front());
  for (std::size_t i = 1; i < cu_seqlens.size(); ++i) {
    if (cu_seqlens[i] < cu_seqlens[i - 1])
      refuse("the bounds of packed sequences must not fall",
             std::to_string(cu_seqlens[i - 1]) + "," + std::to_string(cu_seqlens[i]));
    if (cu_seqlens[i] > max_positions)
      refuse("at most " + std::to_string(max_positions) + " tokens can be listed", cu_seqlens[i]);
    use(cu_seqlens[i - 1], cu_seqlens[i] - cu_seqlens[i - 1]);
  }
}

constexpr detail::Named<Split> splits[] = {
    {Split::contiguous, "contiguous"}, {Split::zigzag, "zigzag"}, {Split::striped, "striped"}};

// ---- as text ----

// Whole numbers, one before each separator and one after the last.
Integers numbers_of(std::string_view spec, std::string_view text, std::string_view separators,
                    const std::string& form) {
  Integers numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i <= separators.size(); ++i) {
    const auto [next, status] = std::from_chars(at, end, numbers.emplace_back());
    const bool last = i == separators.size();
    if (status != std::errc() || (last ? next != end : next == end || *next != separators[i]))
      refuse("it must be written as " + form, spec);
    at = next + (last ? 0 : 1);
  }
  return numbers;
}

PositionSet set_of(const Integers& positions) {
  if (positions.empty()) refuse("there must be at least one position", "none");
  return {.integers = positions, .tokens = std::ssize(positions)};
}

PositionSet packed(std::string_view spec, std::string_view text) {
  const auto commas = static_cast<std::size_t>(std::ranges::count(text, ','));
  return set_of(packed_positions(numbers_of(spec, text, std::string(commas, ','), "packed:0,5,9")));
}

PositionSet shard(std::string_view spec, Split split, std::string_view text) {
  const Integers n = numbers_of(spec, text, "/:", std::string(name(split)) + ":RANK/RANKS:TOKENS");
  if (n[2] < 1) refuse("there must be at least one token", spec);
  const Integers whole = {0, n[2]};
  return set_of(shard_tokens(split, n[0], n[1], whole));
}

// For a rope of two axes, or of three whose first is time.
PositionSet image(std::string_view spec, std::string_view text, int axes) {
  if (axes != 2 && axes != 3) refuse("an image must be given to a rope of rows and columns", spec);
  const bool blocks = text.find('/') != std::string_view::npos;
  const Integers n = numbers_of(spec, text, blocks ? "x/" : "x", "image:24x34 or image:24x34/2");
  PositionSet set = image_positions(n[0], n[1], blocks ? n[2] : 1);
  if (axes == 3) set.integers.insert(set.integers.begin(), static_cast<std::size_t>(set.tokens), 0);
  set.axes = axes;
  return set;
}

PositionSet mask(std::string_view file) {
  if (file.empty()) refuse("it must be written as mask:FILE.npy", "mask:");
  const Tensor tensor = read_npy(files::path_of(file));
  const Integers values = tools::integers_of(tensor, std::string(file), "a mask");
  const Integers& shape = tensor.shape;
  if (shape.empty() || shape.size() > 2 || values.empty()) {
    fail(Code::SHAPE, "positions", file, ": a mask must be [tokens] or [batch, tokens] but is ",
         detail::shape_text(shape));
  }
  const std::int64_t tokens = shape.back(), rows = static_cast<std::int64_t>(values.size()) / tokens;
  if (rows > std::numeric_limits<int>::max()) refuse("the batch must fit 32 bits", rows);
  return {.integers = mask_positions(values, tokens),
          .batch = static_cast<int>(rows),
          .batched = shape.size() == 2,
          .tokens = tokens};
}

}  // namespace

const char* name(Split split) noexcept { return detail::name_in(splits, split); }
Split parse_split(std::string_view word) { return detail::parse_in(splits, word, "split", Code::VALUE); }

Integers packed_positions(std::span<const std::int64_t> cu_seqlens) {
  Integers positions;
  for_each_sequence(cu_seqlens, [&](std::int64_t, std::int64_t length) {
    for (std::int64_t p = 0; p < length; ++p) positions.push_back(p);
  });
  return positions;
}

Integers mask_positions(std::span<const std::int64_t> mask, std::int64_t tokens) {
  if (tokens < 1 || mask.size() % static_cast<std::size_t>(tokens) != 0)
    refuse("a mask must be [batch, tokens] of " + std::to_string(tokens) + " tokens",
           std::to_string(mask.size()) + " values");
  Integers positions;
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (i % static_cast<std::size_t>(tokens) == 0) seen = 0;
    positions.push_back(mask[i] != 0 ? seen++ : 0);
  }
  return positions;
}

PositionSet image_positions(std::int64_t rows, std::int64_t columns, std::int64_t merge) {
  if (rows < 1 || columns < 1 || rows > max_positions / columns)
    refuse("an image must have from 1 to " + std::to_string(max_positions) + " patches",
           std::to_string(rows) + "x" + std::to_string(columns));
  if (merge < 1 || rows % merge != 0 || columns % merge != 0)
    refuse("blocks must divide rows and columns, " + std::to_string(rows) + "x" + std::to_string(columns) + ",", merge);
  PositionSet set{.axes = 2, .tokens = rows * columns};
  for (const std::int64_t axis : {0, 1}) {
    for (std::int64_t t = 0; t < set.tokens; ++t) {
      const std::int64_t block = t / (merge * merge), within = t % (merge * merge), across = columns / merge;
      set.integers.push_back(axis == 0 ? block / across * merge + within / merge
                                       : block % across * merge + within % merge);
    }
  }
  return set;
}

Integers shard_tokens(Split split, std::int64_t rank, std::int64_t ranks, std::span<const std::int64_t> cu_seqlens) {
  if (ranks < 1 || ranks > max_positions)
    refuse("there must be from 1 to " + std::to_string(max_positions) + " ranks", ranks);
  if (rank < 0 || rank >= ranks) refuse("a rank must be from 0 to " + std::to_string(ranks - 1), rank);
  Integers tokens;
  const auto take = [&tokens](std::int64_t begin, std::int64_t count, std::int64_t step) {
    for (std::int64_t i = 0; i < count; ++i) tokens.push_back(begin + i * step);
  };
  const std::int64_t chunks = split == Split::zigzag ? 2 * ranks : ranks;
  for_each_sequence(cu_seqlens, [&](std::int64_t begin, std::int64_t length) {
    if (length % chunks != 0)
      refuse(std::string("the length of a ") + name(split) + " sequence must divide by " + std::to_string(chunks),
             length);
    const std::int64_t chunk = length / chunks;
    if (split == Split::striped) return take(begin + rank, chunk, ranks);
    take(begin + rank * chunk, chunk, 1);
    if (split == Split::zigzag) take(begin + (chunks - 1 - rank) * chunk, chunk, 1);
  });
  return tokens;
}

Integers place_of_tokens(Split split, std::int64_t ranks, std::span<const std::int64_t> cu_seqlens) {
  Integers gathered = shard_tokens(split, 0, ranks, cu_seqlens);
  for (std::int64_t rank = 1; rank < ranks; ++rank)
    std::ranges::copy(shard_tokens(split, rank, ranks, cu_seqlens), std::back_inserter(gathered));
  Integers places(gathered.size());
  for (std::size_t i = 0; i < gathered.size(); ++i)
    places[static_cast<std::size_t>(gathered[i])] = static_cast<std::int64_t>(i);
  return places;
}

HeldTokens held_tokens(const SlidingWindow& window, std::int64_t t) {
  if (window.tokens < 1 || window.tokens > max_positions)
    refuse("a window must have from 1 to " + std::to_string(max_positions) + " tokens", window.tokens);
  if (window.sinks < 0 || window.sinks >= window.tokens)
    refuse("sinks must be from 0 to below the " + std::to_string(window.tokens) + " tokens of the window",
           window.sinks);
  if (t < 0) refuse("a token must be at least 0", t);
  HeldTokens held;
  for (std::int64_t slot = 0; slot <= std::min(t, window.tokens - 1); ++slot) {
    const bool sink = slot < window.sinks;
    const std::int64_t age = sink || t < window.tokens ? t - slot : (t - slot) % (window.tokens - window.sinks);
    held.tokens.push_back(t - age);
    held.positions.push_back(t - age + (sink ? window.moved(t) : 0));
  }
  return held;
}

DualChunkPositions dual_chunk_positions(std::span<const std::int64_t> positions, std::int64_t chunk,
                                        std::int64_t local) {
  if (chunk > std::int64_t{1} << 61) refuse("the chunk must be at most 2^61", chunk);
  if (local < 0 || local >= chunk) refuse("the local size must be from 0 to below the chunk", local);
  const std::int64_t n = chunk - local;
  DualChunkPositions found;
  for (const std::int64_t p : positions) {
    if (p < 0) refuse("a position must be at least 0", p);
    found.key.push_back(p % n);
    found.before.push_back(std::min(p % n + n, chunk));
    found.far.push_back(std::min(2 * n - 1, chunk));
    found.before_critical.push_back(p % n + n);
    found.far_critical.push_back(p % n + chunk);
  }
  found.same = found.key;
  return found;
}

SelfExtendPositions self_extend_positions(std::span<const std::int64_t> positions, std::int64_t group,
                                          std::int64_t window) {
  if (group < 1 || window < group) refuse("the window must hold a group of at least 1 token", window);
  SelfExtendPositions found;
  for (const std::int64_t p : positions) {
    if (p < 0) refuse("a position must be at least 0", p);
    found.query.push_back(p / group + (window - window / group));
    found.key.push_back(p / group);
  }
  return found;
}

std::optional<PositionSet> parse_named_positions(std::string_view spec, int axes) {
  const std::size_t colon = spec.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view word = spec.substr(0, colon), text = spec.substr(colon + 1);
  if (word == "packed") return packed(spec, text);
  if (word == "image") return image(spec, text, axes);
  if (word == "mask") return mask(text);
  for (const auto& split : splits) {
    if (word == split.name) return shard(spec, split.value, text);
  }
  return std::nullopt;
}

}  // namespace rotary
