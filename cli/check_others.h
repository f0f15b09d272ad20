// The questions of rotary check that need no tensors from before and after a rotation. Each function prints its answer
// and returns the outcome.
#pragma once

#include <filesystem>

#include "rotary/diagnose.h"
#include "source.h"

namespace rotary::cli {

// An engine's table; paths that were not given are empty. Without cos the request's --inv-freq is checked.
struct TableFiles {
  std::filesystem::path cos, sin;
};
diagnose::Outcome check_table_alone(diagnose::Request&, Source, const TableFiles&);
diagnose::Outcome check_run_of(const std::filesystem::path& folder);
diagnose::Outcome check_weights(const std::filesystem::path& before, const std::filesystem::path& after,
                                std::optional<Pairing>);

}  // namespace rotary::cli
