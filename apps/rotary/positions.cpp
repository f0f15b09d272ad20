#include "positions.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string>

#include "apps/shared/text.h"
#include "rotary/tensors.h"

namespace rotary::cli {

namespace {

[[noreturn]] void fail(Code code, const std::string& rule, std::string_view got) {
  throw Error(code, "[positions] " + rule + " but got '" + std::string(got) + "'");
}

std::int64_t parse_integer(std::string_view text, std::string_view item) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range) fail(Code::POSITION, "a position must fit 64 bits", item);
  if (status != std::errc() || end != text.data() + text.size()) {
    fail(Code::POSITION, "expected a position such as 7, a range such as 0:4096, or a file that ends in .npy", item);
  }
  return value;
}

void append_item(std::vector<std::int64_t>& positions, std::string_view item) {
  const std::size_t colon = item.find(':');
  const std::int64_t begin = parse_integer(item.substr(0, colon), item);
  std::uint64_t count = 1;
  if (colon != std::string_view::npos) {
    const std::int64_t end = parse_integer(item.substr(colon + 1), item);
    if (begin >= end) fail(Code::POSITION, "a range must end after it begins (its end is not included)", item);
    count = static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(begin);  // cannot wrap: begin < end
  }
  if (count > static_cast<std::uint64_t>(max_positions) - positions.size()) {
    fail(Code::POSITION, "at most " + std::to_string(max_positions) + " positions can be listed", item);
  }
  const std::size_t old_size = positions.size();
  positions.resize(old_size + count);
  for (std::size_t i = 0; i < count; ++i) positions[old_size + i] = begin + static_cast<std::int64_t>(i);
}

void take_shape(PositionSet& set, const std::vector<std::int64_t>& shape, int axes) {
  const std::size_t leading = axes > 1 ? 1 : 0;
  const bool rank_fits = shape.size() == leading + 1 || shape.size() == leading + 2;
  if (!rank_fits || (leading == 1 && shape[0] != axes)) {
    const std::string count = std::to_string(axes);
    const std::string rule =
        axes > 1 ? "[" + count + ", tokens] or [" + count + ", batch, tokens] for a rope of " + count + " axes"
                 : "[tokens] or [batch, tokens] for a rope of one axis";
    fail(Code::SHAPE, "the file's shape must be " + rule, shape_text(shape));
  }
  set.axes = axes;
  set.batched = shape.size() == leading + 2;
  const std::int64_t batch = set.batched ? shape[leading] : 1;
  set.tokens = shape.back();
  if (batch < 1 || set.tokens < 1) fail(Code::POSITION, "the file must hold at least one position", shape_text(shape));
  if (batch > std::numeric_limits<int>::max()) fail(Code::SHAPE, "the batch must fit 32 bits", shape_text(shape));
  set.batch = static_cast<int>(batch);
}

PositionSet read_position_file(std::string_view path, int axes) {
  const Tensor tensor = read_npy(std::filesystem::path(path));
  PositionSet set;
  take_shape(set, tensor.shape, axes);
  if (tensor.type == ElementType::i64) {
    const std::span<const std::int64_t> values = tensor.as<std::int64_t>();
    set.integers.assign(values.begin(), values.end());
  } else if (tensor.type == ElementType::i32) {
    const std::span<const std::int32_t> values = tensor.as<std::int32_t>();
    set.integers.assign(values.begin(), values.end());
  } else if (tensor.type == ElementType::f64) {
    const std::span<const double> values = tensor.as<double>();
    set.reals.assign(values.begin(), values.end());
    for (const double position : set.reals) {
      if (!std::isfinite(position)) fail(Code::POSITION, "positions must be finite", significant(position, 3));
    }
  } else {
    fail(Code::DTYPE, "positions must be int32, int64 or float64", name(tensor.type));
  }
  return set;
}

}  // namespace

Positions PositionSet::view() const {
  if (!reals.empty()) return Positions(std::span<const double>(reals), axes, batch);
  return Positions(std::span<const std::int64_t>(integers), axes, batch);
}

std::int64_t PositionSet::length() const {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (!reals.empty()) {
    const double last = std::floor(*std::max_element(reals.begin(), reals.end()));
    if (last < 0) return 0;
    return last < 0x1p62 ? static_cast<std::int64_t>(last) + 1 : most;
  }
  if (integers.empty()) return 0;
  const std::int64_t last = *std::max_element(integers.begin(), integers.end());
  if (last < 0) return 0;
  return last == most ? most : last + 1;
}

std::vector<std::int64_t> parse_ranges(std::string_view spec) {
  std::vector<std::int64_t> positions;
  for (std::size_t begin = 0; begin <= spec.size();) {
    const std::size_t end = std::min(spec.find(',', begin), spec.size());
    append_item(positions, spec.substr(begin, end - begin));
    begin = end + 1;
  }
  return positions;
}

PositionSet parse_positions(std::string_view spec, int axes) {
  if (spec.ends_with(".npy")) return read_position_file(spec, axes);
  PositionSet set;
  set.integers = parse_ranges(spec);
  set.tokens = static_cast<std::int64_t>(set.integers.size());
  return set;
}

PositionSet count_positions(std::int64_t tokens) {
  PositionSet set;
  set.integers.resize(static_cast<std::size_t>(tokens));
  std::iota(set.integers.begin(), set.integers.end(), std::int64_t{0});
  set.tokens = tokens;
  return set;
}

}  // namespace rotary::cli
