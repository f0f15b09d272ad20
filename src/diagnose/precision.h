// In which precision the angles and the table of cos and sin were computed.
#pragma once

#include <optional>
#include <string>

#include "rotary/diagnose.h"
#include "turns.h"

namespace rotary::diagnose {

struct FoundPrecision {
  std::optional<Precision> precision;  // none: the data do not tell
  bool angles = false;                 // the angles have that precision, not the table alone
  std::string words;                   // "the table of cos and sin is rounded to bf16"
  Fit fit;                             // with that precision
};
// The motion explains the turns but for rounding. inv_freq_float32 may be empty.
FoundPrecision find_precision(const Turns&, const Motion&, const std::vector<float>& inv_freq_float32);

double round_to(double value, Precision) noexcept;

}  // namespace rotary::diagnose
