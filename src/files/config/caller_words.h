// What callers put in the place of the library's words, and the notes that they look for.
#pragma once

#include <string>
#include <string_view>

namespace rotary::files {

// Words of notes and origins in whose place the program has its options, Python its arguments.
namespace caller_words {
inline constexpr std::string_view pairing = "ConfigOptions::pairing";
inline constexpr std::string_view weights = "apply_weights() reads the checkpoint";
inline constexpr std::string_view inv_freq = "set_inv_freq() uses such values";
}  // namespace caller_words

// The note on a part whose rope is not scaled, as Model::notes has it.
std::string not_scaled_note(const std::string& part);

}  // namespace rotary::files
