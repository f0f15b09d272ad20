#include "tables.h"

#include <cmath>
#include <span>

#include "apps/shared/command.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"

namespace rotary::cli {

namespace {

// Positions that select rows. Throws POSITION for fractional ones.
std::vector<std::int64_t> row_numbers(const PositionSet& rows) {
  std::vector<std::int64_t> numbers = rows.integers;
  for (const double row : rows.reals) {
    if (std::floor(row) != row || std::abs(row) >= 0x1p62) {
      throw Error(Code::POSITION,
                  "[apply] a position that selects a row must be a whole number but got " + significant(row, 17));
    }
    numbers.push_back(static_cast<std::int64_t>(row));
  }
  return numbers;
}

}  // namespace

void add_request_options(Command& command, TableRequest& request) {
  add_source_options(command, request.source);
  add_rope_option(command, request.source);
  command
      .option("--positions", request.positions,
              "positions of the tokens, ends not included: 7, 0:4096, -5:5, 0:8,100:104; or a .npy\n"
              "of int32, int64 or float64: [tokens] or [batch, tokens], with [axes, ...] in front\n"
              "for a rope of several axes. Default: 0:tokens")
      .type_name("SPEC");
  command.option("--cos", request.cos, "your own cos, f32 [rows, pairs]: .npy, or the tensor cos of a safetensors file")
      .type_name("FILE");
  command.option("--sin", request.sin, "your own sin, as --cos; row t serves token t, or --positions selects rows")
      .type_name("FILE");
  add_table_options(command, request.settings);
}

void check_request(const TableRequest& request) {
  if (request.cos.empty() != request.sin.empty()) throw UsageError("--cos and --sin go together");
  if (request.cos.empty()) {
    check_source(request.source);
    return;
  }
  const Source& source = request.source;
  if (!source.config.empty() || source.base) throw UsageError("--cos and --sin replace CONFIG and --base");
  if (!source.scaling.empty() || source.factor || source.trained_length) {
    throw UsageError("--cos and --sin hold their scaling: no --scaling, --factor or --trained-length");
  }
  if (source.pairing.empty())
    throw UsageError("--cos and --sin need --pairing: half, interleaved or interleaved_to_half");
  if (!source.inv_freq.empty() || !source.weights.empty()) {
    throw UsageError("--cos and --sin replace --inv-freq and --weights");
  }
  if (source.rope || source.length || request.settings.angles != "exact" || request.settings.rounding != "f32") {
    throw UsageError("--rope, --length, --angles and --rounding have no meaning beside --cos and --sin");
  }
}

TableSource::TableSource(const TableRequest& request, int head_dim, std::int64_t max_tokens) : request_(request) {
  if (request.cos.empty()) {
    use_model(head_dim, max_tokens);
  } else {
    use_rows(head_dim);
  }
}

void TableSource::use_model(int head_dim, std::int64_t max_tokens) {
  const Model model = read_model(request_.source, head_dim);
  const ModelRope& used = chosen_rope(model, request_.source);
  head_dim_ = used.rope.head_dim;
  rotary_dim_ = used.rope.rotary_dim;
  first_ = used.first;
  frequencies_ = frequencies_of(request_.source, used.rope, 0);
  if (request_.positions) positions_ = parse_positions(*request_.positions, frequencies_.axes());
  const std::int64_t length = positions_ ? positions_->length() : max_tokens;
  frequencies_ = frequencies(used.rope, request_.source.length.value_or(length));
  notes_.push_back(describe(model, used, frequencies_));
  if (model.ropes.size() > 1 && !request_.source.rope) {
    notes_.push_back("note: the model has " + std::to_string(model.ropes.size()) +
                     " ropes; rope 0 was used (--rope N takes another, see 'rotary inspect')");
  }
  for (const std::string& note : notes_on(model, used)) notes_.push_back("note: " + note);
}

void TableSource::use_rows(int head_dim) {
  const Tensor cos = load_rows(request_.cos, "cos");
  const Tensor sin = load_rows(request_.sin, "sin");
  if (cos.shape != sin.shape) {
    throw Error(Code::SHAPE, "[apply] cos and sin must have one shape but got " + shape_text(cos.shape) + " and " +
                                 shape_text(sin.shape));
  }
  const Source& source = request_.source;
  head_dim_ = head_dim;
  first_ = source.first.value_or(0);
  frequencies_.pairing = *pairing_of(source);
  const std::int64_t block =
      2 * std::min<std::int64_t>(cos.shape[1], head_dim);  // clamped: large enough to be refused below
  if (first_ < 0 || block < 2 || block > head_dim - first_ ||
      source.rotary_dim.value_or(static_cast<int>(block)) != block) {
    throw Error(Code::SHAPE, "[apply] cos and sin turn two elements per pair: they must fit head_dim " +
                                 std::to_string(head_dim) + " behind --first, and --rotary-dim, but got " +
                                 shape_text(cos.shape));
  }
  rotary_dim_ = static_cast<int>(block);
  cos_.assign(cos.as<float>().begin(), cos.as<float>().end());
  sin_.assign(sin.as<float>().begin(), sin.as<float>().end());
  if (request_.positions) positions_ = parse_positions(*request_.positions, 1);
  notes_.push_back("cos and sin " + shape_text(cos.shape) + ": " + name(frequencies_.pairing) + ", turning " +
                   std::to_string(rotary_dim_) + " from element " + std::to_string(first_));
}

Table TableSource::table_of_rows(const PositionSet& rows) const {
  const auto pairs = static_cast<std::size_t>(rotary_dim_ / 2);
  const auto available = static_cast<std::int64_t>(cos_.size() / pairs);
  std::vector<float> cos;
  std::vector<float> sin;
  const std::vector<std::int64_t> numbers = row_numbers(rows);
  cos.reserve(numbers.size() * pairs);
  sin.reserve(numbers.size() * pairs);
  for (const std::int64_t row : numbers) {
    if (row < 0 || row >= available) {
      throw Error(Code::POSITION, "[apply] a position must select one of the " + std::to_string(available) +
                                      " rows of cos and sin but got " + std::to_string(row));
    }
    const auto begin = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * pairs);
    cos.insert(cos.end(), cos_.begin() + begin, cos_.begin() + begin + static_cast<std::ptrdiff_t>(pairs));
    sin.insert(sin.end(), sin_.begin() + begin, sin_.begin() + begin + static_cast<std::ptrdiff_t>(pairs));
  }
  return Table(cos, sin, static_cast<int>(pairs), frequencies_.pairing, rows.batch);
}

const Table& TableSource::table(std::int64_t tokens, const std::string& label, const Executor& executor) {
  if (positions_ && positions_->tokens != tokens) {
    throw Error(Code::SHAPE, "[apply] --positions must name one position per token but got " +
                                 std::to_string(positions_->tokens) + " for the " + std::to_string(tokens) +
                                 " tokens of " + label);
  }
  if (table_ && table_->tokens() == tokens) return *table_;
  const PositionSet set = positions_ ? *positions_ : count_positions(tokens);
  if (!request_.cos.empty()) {
    table_ = table_of_rows(set);
  } else {
    table_.emplace(frequencies_, set.view(), table_options(request_.settings, executor));
  }
  return *table_;
}

}  // namespace rotary::cli
