// The length that a scaling reaches, and the lengths for which frequencies hold.
#pragma once

#include <cstdint>
#include <string>

#include "rotary/config.h"

namespace rotary::cli {

// The scaling's trained_length; 0 if it has none.
std::int64_t trained_length(const Scaling&);

// Whether it is a LongRoPE with two equal lists, as read from a GGUF's rope_freqs.weight.
bool has_one_list(const Scaling&);

// The tokens that the scaling is meant to reach; 0 if unknown. For a factor without a trained length of its own
// (linear, ntk) it is counted from the part's context, and only if the scaling comes from --scaling.
std::int64_t reach_of(const ModelRope&, std::int64_t context);
// "trained 32768 x 4 = 131072"; for llama3, whose context is not that product, "trained 8192, the config allows
// 131072"; may be empty.
std::string reach_text(const ModelRope&, std::int64_t context);

// The lengths for which frequencies hold, where they depend on the length. Those of dynamic hold for one.
struct Lengths {
  const char* word = "";   // LongRoPE: "short list", "long list"; dynamic: "as trained", "stretched"; else ""
  std::int64_t least = 1;  // tokens
  std::int64_t most = 0;   // 0: no end
};
Lengths lengths_of(const Rope&, const Frequencies&, std::int64_t length);
// "short list, lengths to 4096", "stretched, length 8192"; "" if they hold for every length.
std::string which_lengths(const Lengths&);

}  // namespace rotary::cli
