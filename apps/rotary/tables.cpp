#include "tables.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "apps/shared/command.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "files/text/paths.h"
#include "rotary/version.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

// Positions that select rows. Throws POSITION for fractional ones.
std::vector<std::int64_t> row_numbers(const char* operation, const PositionSet& rows) {
  std::vector<std::int64_t> numbers = rows.integers;
  for (const double row : rows.reals) {
    if (std::floor(row) != row || std::abs(row) >= 0x1p62) {
      throw Error(Code::POSITION, "[" + std::string(operation) +
                                      "] a position that selects a row must be a whole number but got " +
                                      significant(row, 17));
    }
    numbers.push_back(static_cast<std::int64_t>(row));
  }
  return numbers;
}

std::string text_of(double value) { return significant(value, 17); }
std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(const std::optional<double>& value) { return value ? significant(*value, 17) : "none"; }
std::string text_of(const std::vector<double>& list) {
  std::string text;
  for (const double value : list) text += (text.empty() ? "" : ", ") + significant(value, 17);
  return text;
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

}  // namespace

void add_request_options(Command& command, TableRequest& request) {
  add_source_options(command, request.source);
  add_rope_option(command, request.source);
  add_positions_options(command, request.positions);
  command.option("--cos", request.cos, "your own cos, f32 [rows, pairs]: .npy, or the tensor cos of a safetensors file")
      .type_name("FILE");
  command.option("--sin", request.sin, "your own sin, as --cos; row t serves token t, or --positions selects rows")
      .type_name("FILE");
  add_table_options(command, request.settings);
}

void add_positions_options(Command& command, PositionRequest& request) {
  command
      .option("--positions", request.spec,
              "positions of the tokens, ends not included: 7, 0:4096, -5:5, 0:8,100:104; 100:+16, 16 from\n"
              "100 on; 100: or +100, from there on for each token; or a .npy of int32, int64 or float64:\n"
              "[tokens] or [batch, tokens], with [axes, ...] in front for a rope of several axes.\n"
              "Default: 0:")
      .type_name("SPEC");
  add_same_position_option(command, request);
}

void add_same_position_option(Command& command, PositionRequest& request) {
  command.flag("--same-position-on-every-axis", request.same_on_every_axis,
               "a rope of image axes takes one position for all axes, which is refused otherwise");
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
  if (source.rope || source.length || request.positions.same_on_every_axis || request.settings.angles != "exact" ||
      request.settings.rounding != "f32") {
    throw UsageError(
        "--rope, --length, --angles, --rounding and --same-position-on-every-axis have no meaning beside --cos and "
        "--sin");
  }
}

std::map<std::string, std::string> metadata_of(const Source& source, const TableSettings& settings, const Model& model,
                                               const ModelRope& used, const Frequencies& frequencies,
                                               std::int64_t length) {
  std::map<std::string, std::string> facts = {
      {"made_by", std::string("rotary ") + ROTARY_VERSION},
      {"config", source.config},
      {"model_type", model.model_type},
      {"part", used.part},
      {"rope", std::to_string(&used - model.ropes.data())},
      {"pairing", name(used.rope.pairing)},
      {"direction", direction(used.rope)},
      {"head_dim", std::to_string(used.rope.head_dim)},
      {"rotary_dim", std::to_string(used.rope.rotary_dim)},
      {"first", std::to_string(used.first)},
      {"base", used.rope.inv_freq.empty() ? significant(used.rope.base, 17) : ""},
      {"inv_freq", source.inv_freq},
      {"weights", source.weights},
      {"scaling", name(used.rope.scaling)},
      {"attention_factor", significant(frequencies.attention_factor, 17)},
      {"length", std::to_string(length)},
      {"angles", settings.angles},
      {"rounding", settings.rounding}};
  scalings::for_each_field(used.rope.scaling, [&facts](const auto& field, const auto& value) {
    facts[std::string("scaling.") + field.name] = text_of(value);
  });
  return facts;
}

TableSource::TableSource(const TableRequest& request, const char* operation)
    : request_(request), operation_(operation) {
  if (request.cos.empty() && !request.source.config.empty()) model_ = read_model(request.source, 0);
}

void TableSource::fail(Code code, const std::string& sentence) const {
  throw Error(code, "[" + std::string(operation_) + "] " + sentence);
}

HeadFacts TableSource::facts() const {
  if (!model_) return {};
  const ModelRope& used = chosen_rope(*model_, request_.source);
  return {used.rope.head_dim, used.rope.rotary_dim, used.first, used.heads, used.kv_heads};
}

void TableSource::prepare(int head_dim, std::int64_t max_tokens) {
  if (request_.cos.empty()) {
    use_model(head_dim, max_tokens);
  } else {
    use_rows(head_dim);
  }
}

bool TableSource::exact() const noexcept {
  return request_.cos.empty() && request_.settings.angles == "exact" && request_.settings.rounding == "f32";
}

void TableSource::use_model(int head_dim, std::int64_t max_tokens) {
  if (!model_) model_ = read_model(request_.source, head_dim);
  const ModelRope& used = chosen_rope(*model_, request_.source);
  head_dim_ = used.rope.head_dim;
  rotary_dim_ = used.rope.rotary_dim;
  first_ = used.first;
  positions_ = positions_of(operation_, request_.positions, *model_, used);
  length_ = request_.source.length.value_or(positions_.closed(std::max(max_tokens, positions_.tokens)).length());
  frequencies_ = frequencies_of(request_.source, used.rope, length_);
  notes_.push_back(describe(*model_, used, frequencies_));
  if (model_->ropes.size() > 1 && !request_.source.rope) {
    notes_.push_back("note: the model has " + std::to_string(model_->ropes.size()) +
                     " ropes; rope 0 was used (--rope N takes another, see 'rotary inspect')");
  }
  for (const std::string& note : notes_on(*model_, used)) notes_.push_back("note: " + note);
}

std::map<std::string, std::string> TableSource::metadata() const {
  std::map<std::string, std::string> facts;
  if (request_.cos.empty()) {
    facts = metadata_of(request_.source, request_.settings, *model_, chosen_rope(*model_, request_.source),
                        frequencies_, length_);
  } else {
    facts = {{"made_by", std::string("rotary ") + ROTARY_VERSION},
             {"cos", request_.cos},
             {"sin", request_.sin},
             {"pairing", name(frequencies_.pairing)},
             {"rotary_dim", std::to_string(rotary_dim_)},
             {"first", std::to_string(first_)},
             {"attention_factor", significant(std::hypot(cos_.at(0), sin_.at(0)), 6)}};  // as far as f32 tells
  }
  const bool only_open = positions_.open_from && positions_.tokens == 0;  // +16 is 16:, and none is 0:
  facts["positions"] = only_open ? std::to_string(*positions_.open_from) + ":" : *request_.positions.spec;
  return facts;
}

void TableSource::use_rows(int head_dim) {
  const Tensor cos = load_rows(operation_, files::path_of(request_.cos), "cos");
  const Tensor sin = load_rows(operation_, files::path_of(request_.sin), "sin");
  if (cos.shape != sin.shape) {
    fail(Code::SHAPE,
         "cos and sin must have one shape but got " + shape_text(cos.shape) + " and " + shape_text(sin.shape));
  }
  if (is_doubled(cos) && is_doubled(sin)) {
    fail(Code::SHAPE, "cos and sin must have one column for each pair but got each twice, as Hugging Face's are: " +
                          shape_text(cos.shape) + " (of 'rotary table' the form pairs)");
  }
  const Source& source = request_.source;
  head_dim_ = head_dim;
  first_ = source.first.value_or(0);
  frequencies_.pairing = *pairing_of(source);
  const std::int64_t block =
      2 * std::min<std::int64_t>(cos.shape[1], head_dim);  // clamped: large enough to be refused below
  if (first_ < 0 || block < 2 || block > head_dim - first_ ||
      source.rotary_dim.value_or(static_cast<int>(block)) != block) {
    fail(Code::SHAPE, "cos and sin turn two elements per pair: they must fit head_dim " + std::to_string(head_dim) +
                          " behind --first, and --rotary-dim, but got " + shape_text(cos.shape));
  }
  rotary_dim_ = static_cast<int>(block);
  cos_.assign(cos.as<float>().begin(), cos.as<float>().end());
  sin_.assign(sin.as<float>().begin(), sin.as<float>().end());
  positions_ = parse_positions(request_.positions.spec.value_or("0:"), 1);
  notes_.push_back("cos and sin " + shape_text(cos.shape) + ": " + name(frequencies_.pairing) + ", turning " +
                   std::to_string(rotary_dim_) + " from element " + std::to_string(first_));
}

Table TableSource::table_of_rows(const PositionSet& rows) const {
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

PositionSet TableSource::positions(std::int64_t tokens, const std::string& label) const {
  if (!positions_.open_from && positions_.tokens != tokens) {
    fail(Code::SHAPE, "--positions must name one position per token but got " + std::to_string(positions_.tokens) +
                          " for the " + std::to_string(tokens) + " tokens of " + label);
  }
  return positions_.closed(tokens);
}

const Table& TableSource::table(std::int64_t tokens, const std::string& label, const Executor& executor) {
  const PositionSet set = positions(tokens, label);
  if (table_ && table_->tokens() == tokens) return *table_;
  if (!request_.cos.empty()) {
    table_ = table_of_rows(set);
  } else {
    table_.emplace(frequencies_, set.view(), table_options(request_.settings, executor));
  }
  return *table_;
}

}  // namespace rotary::cli
