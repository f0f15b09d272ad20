// --scaling, --factor, --trained-length, and --base beside CONFIG: what another scaling would do, without a new file.
#pragma once

#include "source.h"

namespace rotary::cli {

void add_scaling_options(Command& command, Source& source);

// Throws UsageError for options that do not go together, or whose values no scaling takes.
void check_scaling_options(const Source&);

// Replaces the scaling, and beside CONFIG the base, of the rope that --rope names: by default the only rope of the part
// that comes first. The trained length is by default the config's context. Origins and notes say what was replaced.
// Throws ROPE where several ropes need --rope, UsageError where no trained length is known.
void apply_scaling_options(Model&, const Source&);

}  // namespace rotary::cli
