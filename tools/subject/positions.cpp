#include "rotary/choice.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "number_files.h"
#include "subject.h"
#include "text/paths.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary {

// ---- number_files.h ----

namespace tools {
namespace {

// T: std::int64_t for bool, uint8, int32 and int64; or double, also for float32 and float64. Empty for other types.
template <class T>
std::optional<std::vector<T>> numbers_in(const Tensor& tensor) {
  const auto as_numbers = [](const auto& values) {
    std::vector<T> numbers(values.size());
    std::ranges::transform(values, numbers.begin(), [](auto value) { return static_cast<T>(value); });
    return numbers;
  };
  constexpr bool reals = std::is_floating_point_v<T>;
  if (tensor.type == ElementType::i64) return as_numbers(tensor.as<std::int64_t>());
  if (tensor.type == ElementType::i32) return as_numbers(tensor.as<std::int32_t>());
  if (tensor.type == ElementType::boolean || tensor.type == ElementType::u8) return as_numbers(tensor.data);
  if (reals && tensor.type == ElementType::f32) return as_numbers(tensor.as<float>());
  if (reals && tensor.type == ElementType::f64) return as_numbers(tensor.as<double>());
  return std::nullopt;
}

[[noreturn]] void refuse_type(const Tensor& tensor, const std::string& file, const std::string& what,
                              const char* types) {
  fail(Code::DTYPE, "positions", file, ": ", what, " must be ", types, " but is ", name(tensor.type));
}

}  // namespace

std::vector<std::int64_t> integers_of(const Tensor& tensor, const std::string& file, const std::string& what) {
  const auto found = numbers_in<std::int64_t>(tensor);
  if (!found) refuse_type(tensor, file, what, "bool, uint8, int32 or int64");
  return *found;
}

std::vector<double> reals_of(const Tensor& tensor, const std::string& file, const std::string& what) {
  const auto found = numbers_in<double>(tensor);
  if (!found) refuse_type(tensor, file, what, "an integer type, float32 or float64");
  if (!std::ranges::all_of(*found, [](double value) { return std::isfinite(value); }))
    fail(Code::POSITION, "positions", file, ": ", what, " must be finite but holds infinity or NaN");
  return *found;
}

}  // namespace tools

using detail::shape_text;
using detail::significant;

namespace {

[[noreturn]] void refuse(Code code, const std::string& rule, std::string_view got) {
  fail(code, "positions", rule, " but got '", got, "'");
}

std::int64_t parse_integer(std::string_view text, std::string_view item) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range) refuse(Code::POSITION, "a position must fit 64 bits", item);
  if (status != std::errc() || end != text.data() + text.size()) {
    refuse(
        Code::POSITION,
        "expected a position such as 7, a range such as 0:4096, an open one such as 100:, an offset such as +16, or a "
        "file that ends in .npy",
        item);
  }
  return value;
}

// Appends `count` numbers from begin on, which must fit 64 bits.
void count_on(std::vector<std::int64_t>& positions, std::int64_t begin, std::uint64_t count) {
  const std::size_t old_size = positions.size();
  positions.resize(old_size + count);
  for (std::size_t i = 0; i < count; ++i) positions[old_size + i] = begin + static_cast<std::int64_t>(i);
}

void append_range(std::vector<std::int64_t>& positions, std::int64_t begin, std::uint64_t count,
                  std::string_view item) {
  if (count > static_cast<std::uint64_t>(max_positions) - positions.size()) {
    refuse(Code::POSITION, "at most " + std::to_string(max_positions) + " positions can be listed", item);
  }
  count_on(positions, begin, count);
}

void append_item(PositionSet& set, std::string_view item) {
  if (set.open_from)
    refuse(Code::POSITION, "an open range must be the last item", std::to_string(*set.open_from) + ":");
  const std::size_t colon = item.find(':');
  const std::int64_t begin = parse_integer(item.substr(0, colon), item);
  if (colon == std::string_view::npos) return append_range(set.integers, begin, 1, item);
  if (colon + 1 == item.size()) {
    set.open_from = begin;
    return;
  }
  if (item[colon + 1] == '+') {
    const std::int64_t count = parse_integer(item.substr(colon + 2), item);
    if (count < 1) refuse(Code::POSITION, "a range must have at least one position", item);
    if (begin > std::numeric_limits<std::int64_t>::max() - (count - 1)) {
      refuse(Code::POSITION, "a position must fit 64 bits", item);
    }
    return append_range(set.integers, begin, static_cast<std::uint64_t>(count), item);
  }
  const std::int64_t end = parse_integer(item.substr(colon + 1), item);
  if (begin >= end) refuse(Code::POSITION, "a range must end after it begins (its end is not included)", item);
  const auto count = static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(begin);  // cannot wrap: begin < end
  append_range(set.integers, begin, count, item);
}

// The first axes of positions, for a rope with fewer axes.
PositionSet first_axes(PositionSet set, int axes) {
  if (set.axes <= axes) return set;
  const std::size_t kept = static_cast<std::size_t>(set.batch * set.tokens) * static_cast<std::size_t>(axes);
  if (!set.integers.empty()) set.integers.resize(kept);
  if (!set.reals.empty()) set.reals.resize(kept);
  set.axes = axes;
  set.given_shape.reset();
  return set;
}

// A set with the sizes of a file. A rope of one axis beside ropes of several also accepts [tokens].
PositionSet set_of(const std::vector<std::int64_t>& shape, int axes, int file_axes, const std::string& file) {
  const bool own = axes == 1 && shape.size() == 1;
  const std::size_t leading = file_axes > 1 && !own ? 1 : 0;
  const bool rank_fits = shape.size() == leading + 1 || shape.size() == leading + 2;
  if (!rank_fits || (leading == 1 && shape[0] != file_axes)) {
    const std::string count = std::to_string(file_axes);
    const std::string rule =
        file_axes > 1 ? "[" + count + ", tokens] or [" + count + ", batch, tokens] for a rope of " + count + " axes"
                      : "[tokens] or [batch, tokens] for a rope of one axis";
    refuse(Code::SHAPE, file + ": its shape must be " + rule, shape_text(shape));
  }
  const bool batched = shape.size() == leading + 2;
  const std::int64_t batch = batched ? shape[leading] : 1, tokens = shape.back();
  if (batch < 1 || tokens < 1) refuse(Code::POSITION, file + ": it must hold at least one position", shape_text(shape));
  if (batch > std::numeric_limits<int>::max())
    refuse(Code::SHAPE, file + ": the batch must fit 32 bits", shape_text(shape));
  return {.axes = leading == 1 ? file_axes : 1, .batch = static_cast<int>(batch), .batched = batched, .tokens = tokens};
}

PositionSet read_position_file(std::string_view path, int axes, int file_axes) {
  const Tensor tensor = read_npy(files::path_of(path));
  const std::string file(path);
  PositionSet set = set_of(tensor.shape, axes, file_axes, file);
  if (tensor.type == ElementType::i64 || tensor.type == ElementType::i32) {
    set.integers = *tools::numbers_in<std::int64_t>(tensor);
  } else if (tensor.type == ElementType::f64) {
    set.reals = *tools::numbers_in<double>(tensor);
  } else {
    refuse(Code::DTYPE, file + ": positions must be int32, int64 or float64", name(tensor.type));
  }
  set = first_axes(std::move(set), axes);
  for (const double position : set.reals) {
    if (!std::isfinite(position)) refuse(Code::POSITION, file + ": positions must be finite", significant(position, 3));
  }
  return set;
}

bool turns_by_several_axes(const Rope& rope) {
  return std::adjacent_find(rope.axis.begin(), rope.axis.end(), std::not_equal_to<>()) != rope.axis.end();
}

}  // namespace

std::vector<std::int64_t> PositionSet::shape() const {
  if (given_shape) return *given_shape;
  std::vector<std::int64_t> shape = {tokens};
  if (batched) shape.insert(shape.begin(), batch);
  if (axes > 1) shape.insert(shape.begin(), axes);
  return shape;
}

Positions PositionSet::view() const {
  if (!reals.empty()) return Positions(std::span<const double>(reals), axes, batch);
  return Positions(std::span<const std::int64_t>(integers), axes, batch);
}

double PositionSet::value(std::size_t axis, std::size_t row, std::size_t token) const {
  const auto listed = static_cast<std::size_t>(tokens);
  if (token >= listed)
    return static_cast<double>(*open_from) + static_cast<double>(token) - static_cast<double>(listed);
  const std::size_t at =
      ((axes == 1 ? 0 : axis) * static_cast<std::size_t>(batch) + (batch == 1 ? 0 : row)) * listed + token;
  return reals.empty() ? static_cast<double>(integers[at]) : reals[at];
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

PositionSet PositionSet::closed(std::int64_t count) const {
  if (!open_from) return *this;
  const std::string text = std::to_string(*open_from) + ":";
  if (count < tokens) {
    refuse(Code::POSITION,
           "an open range must begin within the " + std::to_string(count) + " tokens, but " + std::to_string(tokens) +
               " positions are listed before it",
           text);
  }
  const std::int64_t more = count - tokens;
  if (more > 0 && *open_from > std::numeric_limits<std::int64_t>::max() - (more - 1)) {
    refuse(Code::POSITION, "positions must fit 64 bits: " + std::to_string(more) + " tokens are counted from there",
           text);
  }
  PositionSet set = *this;
  set.open_from.reset();
  set.tokens = count;
  count_on(set.integers, *open_from, static_cast<std::uint64_t>(more));
  return set;
}

PositionSet parse_ranges(std::string_view spec) {
  PositionSet set;
  if (spec.starts_with('+')) {
    const std::string_view offset = spec.substr(1);
    if (offset.starts_with('-')) refuse(Code::POSITION, "an offset must be + and an integer from 0 on", spec);
    set.open_from = parse_integer(offset, spec);
    return set;
  }
  for (std::size_t begin = 0; begin <= spec.size();) {
    const std::size_t end = std::min(spec.find(',', begin), spec.size());
    append_item(set, spec.substr(begin, end - begin));
    begin = end + 1;
  }
  set.tokens = static_cast<std::int64_t>(set.integers.size());
  return set;
}

PositionSet parse_positions(std::string_view spec, int axes, int file_axes) {
  const auto named = parse_named_positions(spec, std::max(axes, file_axes));
  PositionSet set = named                    ? first_axes(*named, axes)
                    : spec.ends_with(".npy") ? read_position_file(spec, axes, std::max(axes, file_axes))
                                             : parse_ranges(spec);
  set.spec = spec;
  return set;
}

PositionSet positions_of(const std::string& operation, const Choice& choice, const Model& model,
                         const ModelRope& used) {
  int most = 1;
  for (const ModelRope& sister : model.ropes) {
    if (sister.part != used.part) continue;
    most =
        std::max({most, sister.rope.axes(), static_cast<int>(sister.axis_names.size())});  // no pair may use the last
  }
  const std::optional<std::string> spec = choice.positions ? choice.positions->spec : "0:";
  const int axes = used.rope.axes();
  PositionSet set = spec ? parse_positions(*spec, axes, most) : first_axes(*choice.positions, axes);
  const std::string got = choice.positions && spec ? "'" + *spec + "'" : "none";
  if (set.axes < used.rope.summed_axes) {
    const std::string count = std::to_string(used.rope.summed_axes);
    fail(Code::POSITION, operation, "a rope that sums over ", count, " axes must have positions for each, a .npy of [",
         count, ", tokens], but got ", got, ", of ", set.axes);
  }
  if (used.coordinates && set.axes == 1 && turns_by_several_axes(used.rope) && !choice.same_on_every_axis) {
    const std::string count = std::to_string(most);
    fail(Code::POSITION, operation, "a rope of coordinates, as of an image, must have positions for each of its ",
         count, " axes, a .npy of [", count, ", tokens], but got ", got,
         ", which gives all axes the same (--same-position-on-every-axis allows it)");
  }
  return set;
}

std::vector<float> query_scale(const QueryScale& scale, const PositionSet& positions) {
  if (scale.form == QueryForm::none)
    return std::vector<float>(static_cast<std::size_t>(positions.batch * positions.tokens), 1.0F);
  if (positions.axes != 1 || !positions.reals.empty())
    fail(Code::POSITION, "query_scale",
         "positions must be whole numbers of one axis, because the model "
         "multiplies its queries by them, but got others");
  return query_scale(scale, positions.integers);
}

}  // namespace rotary
