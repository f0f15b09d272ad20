// The questions of rotary check without tensors from before and after a rotation. Each prints its answer.
#pragma once

#include <filesystem>

#include "rotary/diagnose.h"
#include "source.h"

namespace rotary::cli {

struct TableFiles {
  std::filesystem::path cos, sin;
};
diagnose::Outcome check_table_alone(diagnose::Request&, Source, const TableFiles&);
diagnose::Outcome check_run_of(const std::filesystem::path& folder);
diagnose::Outcome check_weights(const std::filesystem::path& before, const std::filesystem::path& after,
                                std::optional<Pairing>);

}  // namespace rotary::cli
