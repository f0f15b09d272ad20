// Words of notes and origins on which a caller's own words hang: the program says its options there, Python its
// arguments.
#pragma once

#include <string_view>

namespace rotary::files::caller_words {

inline constexpr std::string_view pairing = "ConfigOptions::pairing";
inline constexpr std::string_view weights = "apply_weights() reads the checkpoint";
inline constexpr std::string_view inv_freq = "set_inv_freq() uses such values";
inline constexpr std::string_view not_scaled = "no rope_scaling or rope_parameters apply: the rope is not scaled";

}  // namespace rotary::files::caller_words
