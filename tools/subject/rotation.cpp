#include "rotation.h"

#include <algorithm>
#include <cmath>

#include "rotary/reference.h"
#include "tensors/formats.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::tools {

using detail::shape_text;
using detail::significant;
using files::label;

namespace {

constexpr const char* apply = "apply";

// The numbers of the rows that positions select. Throws POSITION for fractions.
std::vector<std::int64_t> row_numbers(const PositionSet& rows) {
  std::vector<std::int64_t> numbers = rows.integers;
  for (const double row : rows.reals) {
    if (std::floor(row) != row || std::abs(row) >= 0x1p62) {
      fail(Code::POSITION, apply, "a position that selects a row must be a whole number but got ",
           significant(row, 17));
    }
    numbers.push_back(static_cast<std::int64_t>(row));
  }
  return numbers;
}

// Whether every row has its first half twice, or each of its values twice, and some row has different values.
bool is_doubled(const Tensor& rows) {
  const auto columns = static_cast<std::size_t>(rows.shape.back());
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

Table table_of_rows(const Rotation& how, const PositionSet& rows) {
  const Rope& rope = how.subject.used->rope;
  const int pairs = rope.rotary_dim / 2;
  const std::span<const float> all_cos = how.cos->as<float>(), all_sin = how.sin->as<float>();
  const std::int64_t available = how.cos->shape[0];
  std::vector<float> cos, sin;
  for (const std::int64_t row : row_numbers(rows)) {
    if (row < 0 || row >= available) {
      fail(Code::POSITION, apply, "a position must select one of the ", available, " rows of cos and sin but got ",
           row);
    }
    const std::ptrdiff_t begin = row * pairs;
    cos.insert(cos.end(), all_cos.begin() + begin, all_cos.begin() + begin + pairs);
    sin.insert(sin.end(), all_sin.begin() + begin, all_sin.begin() + begin + pairs);
  }
  return Table(cos, sin, pairs, rope.pairing, rows.batch);
}

PositionSet positions_for(const Rotation& how, std::int64_t tokens, const std::string& named) {
  const PositionSet& positions = *how.subject.positions;
  if (!positions.open_from && positions.tokens != tokens) {
    fail(Code::SHAPE, apply, "--positions must name one position per token but got ", positions.tokens, " for the ",
         tokens, " tokens of ", named);
  }
  return positions.closed(tokens);
}

const Table& table_for(const Rotation& how, const PositionSet& positions, std::optional<Table>& table) {
  if (table && table->tokens() == positions.tokens) return *table;
  if (how.cos) return table.emplace(table_of_rows(how, positions));
  return table.emplace(how.frequencies, positions.view(), how.options);
}

// Rounds after every operation, like a framework in the tensor's dtype, which multiplies in a step of its own.
void rotate_by_steps(const Heads& whole, int first, std::vector<float> factors, const Table& table, Direction to) {
  for (float& factor : factors) {
    if (whole.dtype == DType::f16) factor = to_float(to_f16(factor));
    if (whole.dtype == DType::bf16) factor = to_float(to_bf16(factor));
  }
  const bool multiplies = !factors.empty(), backward = to == Direction::backward;
  if (multiplies && backward) multiply(whole, factors);
  const Heads block = slice(whole, first, whole.layout.head_dim - first);
  reference::rotate(block, block, table, to, reference::Arithmetic::each_step);
  if (multiplies && !backward) multiply(whole, factors);
}

void multiply_doubles(std::span<double> elements, const Layout& l, std::span<const float> factors) {
  for (std::int64_t i = 0; i < l.batch * l.tokens * l.heads; ++i) {
    const std::int64_t head = i % l.heads, token = i / l.heads;  // over all batch rows
    const std::int64_t at =
        token / l.tokens * l.batch_stride + token % l.tokens * l.token_stride + head * l.head_stride;
    const auto of_head = elements.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(l.head_dim));
    for (double& x : of_head) x *= factors[static_cast<std::size_t>(token) % factors.size()];
  }
}

// The element of each head where the rotated block begins: the rope's first, or 0 for a tensor that holds only the
// block.
int first_of(const Tensor& tensor, const Layout& layout, const Rotation& how) {
  const ModelRope& used = *how.subject.used;
  const bool bare = how.subject.is_bare(layout.head_dim);
  if (layout.head_dim != used.rope.head_dim && !bare) {
    std::string rule = "head_dim must be " + std::to_string(used.rope.head_dim);
    if (used.first > 0) rule += ", or " + std::to_string(used.rope.rotary_dim) + " for the bare rotary block,";
    fail(Code::SHAPE, apply, rule, " but ", label(tensor), " is ", shape_text(tensor.shape));
  }
  return bare ? 0 : used.first;
}

// Rotates in double. first: the tensor's element where the block begins.
void rotate_doubles(Tensor& tensor, const Layout& block, int first, const Rotation& how, const PositionSet& positions,
                    std::optional<Table>& table) {
  const std::span<double> elements = tensor.as<double>().subspan(static_cast<std::size_t>(first));
  const bool exact = !how.cos && how.options.angles == Angles::exact && how.options.rounding == Rounding::f32;
  const reference::DoubleTable doubles = exact ? reference::double_table(how.frequencies, positions.view())
                                               : reference::double_table(table_for(how, positions, table));
  if (doubles.batch != 1 && doubles.batch != block.batch) {
    fail(Code::SHAPE, apply, "positions must have 1 batch row, or the ", block.batch, " of ", label(tensor),
         ", but got ", doubles.batch);
  }
  reference::rotate(elements, block, doubles, how.direction);
}

}  // namespace

int check_rows(const Tensor& cos, const Tensor& sin, const ModelRope& used, std::optional<int> rotary_dim) {
  const auto refuse = [](const std::string& sentence) { fail(Code::SHAPE, apply, sentence); };
  const int head_dim = used.rope.head_dim;
  const std::string shape = shape_text(cos.shape);
  if (cos.shape != sin.shape) {
    refuse("cos and sin must have one shape but got " + shape + " and " + shape_text(sin.shape));
  }
  if (is_doubled(cos) && is_doubled(sin)) {
    refuse("cos and sin must have one column for each pair but got each twice, as Hugging Face's are: " + shape +
           " (of 'rotary table' the form pairs)");
  }
  const std::int64_t block = 2 * std::min<std::int64_t>(cos.shape.back(), head_dim);  // large enough that it is refused
  if (used.first < 0 || block < 2 || block > head_dim - used.first ||
      rotary_dim.value_or(static_cast<int>(block)) != block) {
    refuse("cos and sin turn two elements per pair: they must fit head_dim " + std::to_string(head_dim) +
           " after --first, and --rotary-dim, but got " + shape);
  }
  return static_cast<int>(block);
}

void check_types(const std::vector<Tensor*>& tensors) {
  for (const Tensor* tensor : tensors) {
    if (dtype_of(tensor->type) || tensor->type == ElementType::f64) continue;
    fail(Code::DTYPE, apply, label(*tensor), " must be F32, F16, BF16 or F64 but got ", name(tensor->type));
  }
}

void rotate_tensor(Tensor& tensor, const Layout& layout, const Rotation& how, std::optional<Table>& table) {
  const int first = first_of(tensor, layout, how);
  if (tensor.elements() == 0) return;
  const PositionSet positions = positions_for(how, layout.tokens, label(tensor));
  const QueryScale& scale = how.subject.scale;
  std::vector<float> factors;
  if (scale.form != QueryForm::none && role_of(tensor.name) != Role::k) factors = query_scale(scale, positions);
  if (tensor.type == ElementType::f64) {
    Layout block = layout;
    block.head_dim -= first;
    if (how.subject.turns) rotate_doubles(tensor, block, first, how, positions, table);
    if (!factors.empty()) multiply_doubles(tensor.as<double>(), layout, factors);
    return;
  }
  const Heads whole{tensor.data.data(), *dtype_of(tensor.type), layout};
  const Table* const rows = how.subject.turns ? &table_for(how, positions, table) : nullptr;
  try {
    if (rows == nullptr) return multiply(whole, factors, {.executor = how.options.executor});
    if (how.each_step) return rotate_by_steps(whole, first, factors, *rows, how.direction);
    rotary::rotate(whole, *rows, {.direction = how.direction, .first = first, .executor = how.options.executor},
                   factors);
  } catch (const Error& error) {
    throw error.about(label(tensor));
  }
}

namespace {

// The largest angle of a token; each term of a sum counts without its sign.
double largest_angle(const Frequencies& f, const PositionSet& positions, std::size_t token) {
  const auto pairs = static_cast<std::size_t>(f.pairs());
  const std::size_t axes = f.summed_axes > 1 ? static_cast<std::size_t>(f.summed_axes) : 1;
  std::vector<double> angles(static_cast<std::size_t>(f.head_rows) * pairs);
  for (std::size_t i = 0; i < f.inv_freq.size(); ++i) {  // [heads, axes, pairs]
    const std::size_t pair = i % pairs, own = f.axis.empty() ? 0 : static_cast<std::size_t>(f.axis[pair]);
    const double position = positions.value(axes > 1 ? i / pairs % axes : own, 0, token);
    angles[i / pairs / axes * pairs + pair] += std::fabs(position * f.inv_freq[i]);
  }
  return std::ranges::max(angles);
}

}  // namespace

Tolerances tolerances(const Frequencies& f, const PositionSet& positions) {
  constexpr double u32 = 0x1p-24, u16 = 0x1p-11, ubf16 = 0x1p-8;            // the unit roundoff of each type
  const double amplitude = std::sqrt(2.0) * std::fabs(f.attention_factor);  // a rotated element's
  // cos and sin (2 ulps of a libm), two products and a sum, there; half of it here; fused or not.
  const double f32 = 8 * u32 * amplitude;
  // Each of four steps is rounded to the type: cos or sin, its attention factor, the product, the sum.
  Tolerances all{f32, 4 * u16 * amplitude + f32, 4 * ubf16 * amplitude + f32, {}};
  // An angle of float32 steps: two for the frequency, one for the position, one for their product; one for each sum.
  const int steps = 4 + std::max(0, f.summed_axes - 1);
  for (std::size_t token = 0; token < static_cast<std::size_t>(positions.tokens); ++token)
    all.float32_angles.push_back(std::min(steps * u32 * largest_angle(f, positions, token), 2.0) * amplitude + f32);
  return all;
}

}  // namespace rotary::tools
