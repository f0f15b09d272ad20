// Any text as --positions: refused in one sentence, or a list of positions that is read back the same when written out.
#include "rotary/positions.h"

#include "core/tests/fuzz/fuzz.h"

namespace rotary::fuzz {

std::vector<std::string> seeds() {
  return {"0:16", "7", "0:8,100:104", "-5:5", "100:", "+16", "0:4,-9:", "9223372036854775806:9223372036854775807"};
}

std::vector<std::string> words() {
  return {":", ",", "-", "+", "0", "1", "-9223372036854775808", "9223372036854775807", "18446744073709551616",
          " ", ".5"};
}

void one(const std::string& input) {
  try {
    const PositionSet set = parse_ranges(input);
    require(set.open_from.has_value() || !set.integers.empty(), "no positions");
    require(set.integers.size() <= static_cast<std::size_t>(max_positions), "count");
    if (set.integers.size() > 1000) return;
    const PositionSet closed = set.closed(set.tokens + 3);
    std::string spelled;
    for (const std::int64_t position : closed.integers) {
      spelled += (spelled.empty() ? "" : ",") + std::to_string(position);
    }
    require(parse_ranges(spelled).integers == closed.integers,
            "positions spelled out must give themselves: " + spelled);
  } catch (const Error& error) {
    require(error.code() == Code::POSITION, "unexpected code " + std::string(name(error.code())));
  }
}

}  // namespace rotary::fuzz
