// What a conversion changes in config.json, and what it cannot say there.
#pragma once

#include <string>
#include <vector>

#include "layers.h"
#include "plan.h"

namespace rotary::convert {

// The key that says the pairing, in models that have one.
std::vector<ConfigChange> config_changes(const Plan&, const TextPart&, const std::string& json);
std::string changed_config(const std::string& json, const std::vector<ConfigChange>&);

void add_notes(Plan&, const TextPart&);

}  // namespace rotary::convert
