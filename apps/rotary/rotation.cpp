#include "rotation.h"

#include <algorithm>
#include <cstddef>

#include "apps/shared/progress_line.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "double_rotation.h"
#include "rotary/reference.h"

namespace rotary::cli {

namespace {

void check_types(const char* operation, const std::vector<Tensor*>& tensors) {
  for (const Tensor* tensor : tensors) {
    if (dtype_of(tensor->type) || tensor->type == ElementType::f64) continue;
    throw Error(Code::DTYPE, "[" + std::string(operation) + "] " + label(*tensor) +
                                 " must be F32, F16, BF16 or F64 but got " + name(tensor->type));
  }
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
void rotate_floats(const Heads& block, Tensor& tensor, const Table& table, Direction direction, bool each_step,
                   const Executor& executor) {
  const std::vector<std::byte> before = each_step ? tensor.data : std::vector<std::byte>();
  const auto rotate_piece = [&](const Heads& piece, const Table& rows) {
    if (!each_step) return rotate(piece, rows, {direction, executor});
    const auto offset = static_cast<const std::byte*>(piece.data) - tensor.data.data();
    const ConstHeads x(before.data() + offset, piece.dtype, piece.layout);
    reference::rotate(x, piece, rows, direction, reference::Arithmetic::each_step);
  };
  const Layout& layout = block.layout;
  if (table.batch() != 1 || table.tokens() != layout.tokens) return rotate_piece(block, table);
  constexpr std::int64_t elements = std::int64_t{1} << 20;
  const std::int64_t piece =
      std::max<std::int64_t>(1, elements / std::max<std::int64_t>(1, layout.batch * layout.heads * layout.head_dim));
  ProgressLine progress("rotate", layout.tokens);
  for (std::int64_t first = 0; first < layout.tokens; first += piece) {
    const std::int64_t count = std::min(piece, layout.tokens - first);
    rotate_piece(piece_of(block, first, count), piece_of(table, first, count));
    progress.done(first + count);
  }
}

}  // namespace

Rotation::Rotation(const char* operation, const RotationRequest& request, std::vector<Tensor*> tensors)
    : operation_(operation), request_(request), tensors_(std::move(tensors)), tables_(request.tables, operation) {
  check_types(operation, tensors_);
  const std::vector<const Tensor*> seen(tensors_.begin(), tensors_.end());
  readings_ = read_heads(operation, seen, request.layout, tables_.facts());
  int head_dim = 0;
  std::int64_t tokens = 0;
  for (const Reading& reading : readings_.tensors) {
    head_dim = std::max(head_dim, reading.layout.head_dim);
    tokens = std::max(tokens, reading.layout.tokens);
  }
  tables_.prepare(head_dim, tokens);
}

std::vector<std::string> Rotation::notes() const {
  std::vector<std::string> all = tables_.notes();
  all.insert(all.end(), readings_.notes.begin(), readings_.notes.end());
  return all;
}

// The block that turns, and the element of a head where it begins: first, or 0 of a tensor that holds only the block.
Layout Rotation::rotated_block(const Tensor& tensor, const Layout& layout, int& first) const {
  const bool bare = tables_.first() > 0 && layout.head_dim == tables_.rotary_dim();
  if (layout.head_dim != tables_.head_dim() && !bare) {
    std::string rule = "[" + std::string(operation_) + "] head_dim must be " + std::to_string(tables_.head_dim());
    if (tables_.first() > 0) rule += ", or " + std::to_string(tables_.rotary_dim()) + " for the bare rotary block,";
    throw Error(Code::SHAPE, rule + " but " + label(tensor) + " is " + shape_text(tensor.shape));
  }
  first = bare ? 0 : tables_.first();
  Layout block = layout;
  block.head_dim -= first;
  return block;
}

void Rotation::rotate_tensor(Tensor& tensor, const Layout& layout, const Executor& executor) {
  int first = 0;
  const Layout block = rotated_block(tensor, layout, first);
  if (tensor.elements() == 0) return;
  const Direction direction = request_.backward ? Direction::backward : Direction::forward;
  const std::string named = label(tensor);
  if (tensor.type == ElementType::f64) {
    const PositionSet positions = tables_.positions(layout.tokens, named);
    const DoubleRows rows = tables_.exact() ? double_rows(tables_.frequencies(), positions)
                                            : double_rows(tables_.table(layout.tokens, named, executor));
    return rotate_doubles(operation_, named, tensor.as<double>().subspan(static_cast<std::size_t>(first)), block, rows,
                          direction);
  }
  const Table& table = tables_.table(layout.tokens, named, executor);
  const Heads whole{tensor.data.data(), *dtype_of(tensor.type), layout};
  try {
    rotate_floats(slice(whole, first, block.head_dim), tensor, table, direction, request_.each_step, executor);
  } catch (const Error& error) {
    throw Error(error.code(), named + ": " + error.what());
  }
}

void Rotation::run(const Executor& executor) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    rotate_tensor(*tensors_[i], readings_.tensors[i].layout, executor);
  }
}

}  // namespace rotary::cli
