#include "rotation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "files/tensors/input.h"
#include "rotary/reference.h"
#include "values/number_text.h"

namespace rotary::tools {

using detail::shape_text;
using detail::significant;
using files::label;

namespace {

// Positions that select rows. Throws POSITION for fractional ones.
std::vector<std::int64_t> row_numbers(const std::string& operation, const PositionSet& rows) {
  std::vector<std::int64_t> numbers = rows.integers;
  for (const double row : rows.reals) {
    if (std::floor(row) != row || std::abs(row) >= 0x1p62) {
      throw Error(Code::POSITION, "[" + operation + "] a position that selects a row must be a whole number but got " +
                                      significant(row, 17));
    }
    numbers.push_back(static_cast<std::int64_t>(row));
  }
  return numbers;
}

// Whether every row is its first half twice, or each of its values twice, and some row is not all one value.
bool is_doubled(const Tensor& rows) {
  const auto columns = static_cast<std::size_t>(rows.shape[1]);
  const std::span<const float> values = rows.as<float>();
  if (columns < 4 || columns % 2 != 0) return false;
  bool halves = true, neighbours = true, varied = false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t column = i % columns;
    if (column < columns / 2) halves = halves && values[i] == values[i + columns / 2];
    if (column % 2 == 0) neighbours = neighbours && values[i] == values[i + 1];
    varied = varied || values[i] != values[i - column];
  }
  return varied && (halves || neighbours);
}

// Tokens [first, first + count) of x, and the rows of a table whose batch rows share positions.
Heads piece_of(const Heads& x, std::int64_t first, std::int64_t count) {
  Heads piece = x;
  piece.layout.tokens = count;
  const auto bytes = static_cast<std::ptrdiff_t>(size_of(x.dtype));
  piece.data = static_cast<std::byte*>(x.data) + first * x.layout.token_stride * bytes;
  return piece;
}
Table piece_of(const Table& table, std::int64_t first, std::int64_t count) {
  const auto pairs = static_cast<std::size_t>(table.pairs());
  const std::size_t begin = static_cast<std::size_t>(first) * pairs, size = static_cast<std::size_t>(count) * pairs;
  return Table::borrow(table.cos().subspan(begin, size), table.sin().subspan(begin, size), table.pairs(),
                       table.pairing());
}

// In pieces of tokens, so that a long one shows how far it is.
void rotate_floats(const Heads& block, Tensor& tensor, const Table& table, const RotationOptions& options,
                   const Executor& executor) {
  const std::vector<std::byte> before = options.each_step ? tensor.data : std::vector<std::byte>();
  const auto rotate_piece = [&](const Heads& piece, const Table& rows) {
    if (!options.each_step) return rotary::rotate(piece, rows, {options.direction, executor});
    const auto offset = static_cast<const std::byte*>(piece.data) - tensor.data.data();
    const ConstHeads x(before.data() + offset, piece.dtype, piece.layout);
    reference::rotate(x, piece, rows, options.direction, reference::Arithmetic::each_step);
  };
  const Layout& layout = block.layout;
  if (table.batch() != 1 || table.tokens() != layout.tokens) return rotate_piece(block, table);
  constexpr std::int64_t elements = std::int64_t{1} << 20;
  const std::int64_t piece =
      std::max<std::int64_t>(1, elements / std::max<std::int64_t>(1, layout.batch * layout.heads * layout.head_dim));
  for (std::int64_t first = 0; first < layout.tokens; first += piece) {
    const std::int64_t count = std::min(piece, layout.tokens - first);
    rotate_piece(piece_of(block, first, count), piece_of(table, first, count));
    if (options.progress) options.progress(first + count, layout.tokens);
  }
}

}  // namespace

void Tables::fail(Code code, const std::string& sentence) const {
  throw Error(code, "[" + operation_ + "] " + sentence);
}

Tables::Tables(std::string operation, const ModelRope& used, Frequencies frequencies, PositionSet positions,
               const TableOptions& options)
    : operation_(std::move(operation)),
      options_(options),
      head_dim_(used.rope.head_dim),
      rotary_dim_(used.rope.rotary_dim),
      first_(used.first),
      frequencies_(std::move(frequencies)),
      positions_(std::move(positions)) {}

Tables::Tables(std::string operation, const Rows& rows, PositionSet positions)
    : operation_(std::move(operation)),
      by_rows_(true),
      head_dim_(rows.head_dim),
      first_(rows.first),
      positions_(std::move(positions)) {
  const Tensor &cos = rows.cos, &sin = rows.sin;
  if (cos.shape != sin.shape) {
    fail(Code::SHAPE,
         "cos and sin must have one shape but got " + shape_text(cos.shape) + " and " + shape_text(sin.shape));
  }
  if (is_doubled(cos) && is_doubled(sin)) {
    fail(Code::SHAPE, "cos and sin must have one column for each pair but got each twice, as Hugging Face's are: " +
                          shape_text(cos.shape) + " (of 'rotary table' the form pairs)");
  }
  frequencies_.pairing = rows.pairing;
  const std::int64_t block =
      2 * std::min<std::int64_t>(cos.shape[1], head_dim_);  // clamped: large enough to be refused below
  if (first_ < 0 || block < 2 || block > head_dim_ - first_ ||
      rows.rotary_dim.value_or(static_cast<int>(block)) != block) {
    fail(Code::SHAPE, "cos and sin turn two elements per pair: they must fit head_dim " + std::to_string(head_dim_) +
                          " behind --first, and --rotary-dim, but got " + shape_text(cos.shape));
  }
  rotary_dim_ = static_cast<int>(block);
  cos_.assign(cos.as<float>().begin(), cos.as<float>().end());
  sin_.assign(sin.as<float>().begin(), sin.as<float>().end());
}

bool Tables::exact() const noexcept {
  return !by_rows_ && options_.angles == Angles::exact && options_.rounding == Rounding::f32;
}

double Tables::first_factor() const { return std::hypot(cos_.at(0), sin_.at(0)); }

Table Tables::table_of_rows(const PositionSet& rows) const {
  const auto pairs = static_cast<std::size_t>(rotary_dim_ / 2);
  const auto available = static_cast<std::int64_t>(cos_.size() / pairs);
  std::vector<float> cos;
  std::vector<float> sin;
  const std::vector<std::int64_t> numbers = row_numbers(operation_, rows);
  cos.reserve(numbers.size() * pairs);
  sin.reserve(numbers.size() * pairs);
  for (const std::int64_t row : numbers) {
    if (row < 0 || row >= available) {
      fail(Code::POSITION, "a position must select one of the " + std::to_string(available) +
                               " rows of cos and sin but got " + std::to_string(row));
    }
    const auto begin = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * pairs);
    cos.insert(cos.end(), cos_.begin() + begin, cos_.begin() + begin + static_cast<std::ptrdiff_t>(pairs));
    sin.insert(sin.end(), sin_.begin() + begin, sin_.begin() + begin + static_cast<std::ptrdiff_t>(pairs));
  }
  return Table(cos, sin, static_cast<int>(pairs), frequencies_.pairing, rows.batch);
}

PositionSet Tables::positions(std::int64_t tokens, const std::string& label) const {
  if (!positions_.open_from && positions_.tokens != tokens) {
    fail(Code::SHAPE, "--positions must name one position per token but got " + std::to_string(positions_.tokens) +
                          " for the " + std::to_string(tokens) + " tokens of " + label);
  }
  return positions_.closed(tokens);
}

const Table& Tables::table(std::int64_t tokens, const std::string& name, const Executor& executor) {
  const PositionSet set = positions(tokens, name);
  if (table_ && table_->tokens() == tokens) return *table_;
  if (by_rows_) {
    table_ = table_of_rows(set);
  } else {
    table_.emplace(frequencies_, set.view(), TableOptions(options_.angles, options_.rounding, executor));
  }
  return *table_;
}

// ---- tensors -------------------------------------------------------------------------------------

void check_types(const std::string& operation, const std::vector<Tensor*>& tensors) {
  for (const Tensor* tensor : tensors) {
    if (dtype_of(tensor->type) || tensor->type == ElementType::f64) continue;
    throw Error(Code::DTYPE, "[" + operation + "] " + label(*tensor) + " must be F32, F16, BF16 or F64 but got " +
                                 name(tensor->type));
  }
}

namespace {

// The elements of each head from the first that turns: the tables' first, or 0 of a tensor that holds only the block.
int first_of(const Tensor& tensor, const Layout& layout, const Tables& tables) {
  const bool bare = tables.first() > 0 && layout.head_dim == tables.rotary_dim();
  if (layout.head_dim != tables.head_dim() && !bare) {
    std::string rule = "[" + tables.operation() + "] head_dim must be " + std::to_string(tables.head_dim());
    if (tables.first() > 0) rule += ", or " + std::to_string(tables.rotary_dim()) + " for the bare rotary block,";
    throw Error(Code::SHAPE, rule + " but " + label(tensor) + " is " + shape_text(tensor.shape));
  }
  return bare ? 0 : tables.first();
}

void rotate_doubles(Tensor& tensor, const Layout& block, int first, Tables& tables, Direction direction,
                    const Executor& executor) {
  const std::string named = label(tensor);
  const PositionSet positions = tables.positions(block.tokens, named);
  const reference::DoubleTable table = tables.exact()
                                           ? reference::double_table(tables.frequencies(), positions.view())
                                           : reference::double_table(tables.table(block.tokens, named, executor));
  if (table.batch != 1 && table.batch != block.batch) {
    throw Error(Code::SHAPE, "[" + tables.operation() + "] positions must have 1 batch row, or the " +
                                 std::to_string(block.batch) + " of " + named + ", but got " +
                                 std::to_string(table.batch));
  }
  reference::rotate(tensor.as<double>().subspan(static_cast<std::size_t>(first)), block, table, direction);
}

}  // namespace

void rotate_tensor(Tensor& tensor, const Layout& layout, Tables& tables, const RotationOptions& options,
                   const Executor& executor) {
  const int first = first_of(tensor, layout, tables);
  if (tensor.elements() == 0) return;
  Layout block = layout;
  block.head_dim -= first;
  if (tensor.type == ElementType::f64) {
    return rotate_doubles(tensor, block, first, tables, options.direction, executor);
  }
  const std::string named = label(tensor);
  const Table& table = tables.table(layout.tokens, named, executor);
  const Heads whole{tensor.data.data(), *dtype_of(tensor.type), layout};
  try {
    rotate_floats(slice(whole, first, block.head_dim), tensor, table, options, executor);
  } catch (const Error& error) {
    throw Error(error.code(), named + ": " + error.what());
  }
}

}  // namespace rotary::tools
