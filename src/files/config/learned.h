// What the weights beside a config say of its ropes.
#pragma once

#include <filesystem>

#include "rotary/config.h"

namespace rotary::files {

// The part of apply_weights() that reads the pairing: where the weights in the folder were converted, the ropes get
// their pairing and the notes say so. A folder without weights changes nothing. Throws FILE, FORMAT, JSON, PAIRING.
void apply_weights_pairing(Model&, const std::filesystem::path& folder);

}  // namespace rotary::files
