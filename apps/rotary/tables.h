// The options that say what rotates tensors: a rope and positions, or rows of cos and sin in files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rotary/config.h"
#include "rotary/positions.h"
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

}  // namespace rotary::cli
