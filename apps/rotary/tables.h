// The tables that rotate tensors of files: from a rope and positions, or from rows of cos and sin in files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "positions.h"
#include "readings.h"
#include "rotary/config.h"
#include "rotary/rotary.h"
#include "source.h"

namespace rotary::cli {

class Command;

struct TableRequest {
  Source source;
  PositionRequest positions;  // without spec: 0, 1, 2, ... for each tensor
  std::string cos;
  std::string sin;
  TableSettings settings;
};
void add_request_options(Command& command, TableRequest& request);
void check_request(const TableRequest&);                                    // throws UsageError
void add_positions_options(Command& command, PositionRequest& request);     // --positions, and the next
void add_same_position_option(Command& command, PositionRequest& request);  // --same-position-on-every-axis

// What was asked of a model's rope and what it is, as a file's metadata: config, model_type, part, rope, pairing,
// direction, rotary_dim, base, scaling and each of its values as scaling.NAME, attention_factor, length, angles,
// rounding ...
std::map<std::string, std::string> metadata_of(const Source&, const TableSettings&, const Model&, const ModelRope&,
                                               const Frequencies&, std::int64_t length);

class TableSource {
 public:
  // Reads CONFIG, or the rows. operation is the word in brackets in error sentences and must outlive this.
  TableSource(const TableRequest& request, const char* operation);

  // What CONFIG says of heads; all 0 without it.
  HeadFacts facts() const;

  // Must be called before what follows. head_dim: of the largest head; max_tokens: of the longest tensor.
  void prepare(int head_dim, std::int64_t max_tokens);

  // For a tensor of that many tokens; label names it in errors. Valid until the next call.
  const Table& table(std::int64_t tokens, const std::string& label, const Executor& executor);
  PositionSet positions(std::int64_t tokens, const std::string& label) const;

  const char* operation() const noexcept { return operation_; }
  int head_dim() const noexcept { return head_dim_; }
  int rotary_dim() const noexcept { return rotary_dim_; }
  int first() const noexcept { return first_; }
  // The tables are the correctly rounded ones of frequencies(): neither rows of files, nor --angles or --rounding.
  bool exact() const noexcept;
  const Frequencies& frequencies() const noexcept { return frequencies_; }
  const std::vector<std::string>& notes() const noexcept { return notes_; }
  std::map<std::string, std::string> metadata() const;  // metadata_of, with positions, or of rows cos and sin

 private:
  void use_model(int head_dim, std::int64_t max_tokens);
  void use_rows(int head_dim);
  Table table_of_rows(const PositionSet& rows) const;
  [[noreturn]] void fail(Code code, const std::string& sentence) const;

  TableRequest request_;
  const char* operation_;
  std::optional<Model> model_;
  std::int64_t length_ = 0;
  int head_dim_ = 0;
  int rotary_dim_ = 0;
  int first_ = 0;
  Frequencies frequencies_;
  std::vector<float> cos_;
  std::vector<float> sin_;
  PositionSet positions_;  // open without --positions
  std::optional<Table> table_;
  std::vector<std::string> notes_;
};

}  // namespace rotary::cli
