// The tables of one `rotary apply`: from a rope and positions, or from rows of cos and sin in files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "positions.h"
#include "rotary/rotary.h"
#include "source.h"

namespace rotary::cli {

class Command;

struct TableRequest {
  Source source;
  std::optional<std::string> positions;  // none: 0, 1, 2, ... for each tensor
  std::string cos;
  std::string sin;
  TableSettings settings;
};
void add_request_options(Command& command, TableRequest& request);
void check_request(const TableRequest&);  // throws UsageError

class TableSource {
 public:
  // head_dim: of the largest head; max_tokens: of the longest tensor.
  TableSource(const TableRequest& request, int head_dim, std::int64_t max_tokens);

  // For a tensor of that many tokens; label names it in errors. Valid until the next call.
  const Table& table(std::int64_t tokens, const std::string& label, const Executor& executor);

  int head_dim() const noexcept { return head_dim_; }
  int rotary_dim() const noexcept { return rotary_dim_; }
  int first() const noexcept { return first_; }
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  void use_model(int head_dim, std::int64_t max_tokens);
  void use_rows(int head_dim);
  Table table_of_rows(const PositionSet& rows) const;

  TableRequest request_;
  int head_dim_ = 0;
  int rotary_dim_ = 0;
  int first_ = 0;
  Frequencies frequencies_;
  std::vector<float> cos_;
  std::vector<float> sin_;
  std::optional<PositionSet> positions_;
  std::optional<Table> table_;
  std::vector<std::string> notes_;
};

}  // namespace rotary::cli
