// Measured answers of engines to configs with the same keys: data/engines.json, which bench/engines/page.py writes.
#pragma once

#include <string>
#include <vector>

#include "shared/text.h"

namespace rotary::cli {

// An answer of versions of an engine to cases; cause: check's, "" where the result is not "differs".
struct EngineFinding {
  std::string engine, versions, result, cause;
  std::vector<std::string> cases;  // ids of conformance/cases.json
};

struct EngineFindings {
  std::string date;                  // the day of the newest measurement
  std::vector<std::string> keys;     // the config's rope keys: "rope_theta", "rope_scaling.rope_type=llama3"
  std::vector<EngineFinding> found;  // no element where no measured case has these keys
};

// The findings of the measured cases whose model_type and rope keys are those of this config.json, values of numbers
// apart.
EngineFindings findings_of(const nlohmann::json& config);

nlohmann::ordered_json engines_json(const EngineFindings&);
void print_engines(const EngineFindings&);

}  // namespace rotary::cli
