// How far a scaling reaches, and for which lengths frequencies hold.
#pragma once

#include <cstdint>
#include <string>

#include "rotary/config.h"

namespace rotary::cli {

// The scaling's trained_length; 0 where it has none.
std::int64_t trained_length(const Scaling&);

// Whether it is a LongRoPE whose two lists are one: what a GGUF's rope_freqs.weight is read as.
bool has_one_list(const Scaling&);

// The tokens that the scaling is meant to reach; 0 where nothing says it. A factor without a trained length of its own
// (linear, ntk) counts from the context where the program was told both: --scaling. context: that of the part.
std::int64_t reach_of(const ModelRope&, std::int64_t context);
// "trained 32768 x 4 = 131072"; of llama3, whose context is not their product, "trained 8192, the config allows
// 131072"; "" where there is nothing to say.
std::string reach_text(const ModelRope&, std::int64_t context);

// Which lengths frequencies that depend on the length belong to.
struct Lengths {
  const char* word = "";   // LongRoPE: "short list", "long list"; dynamic: "as trained", "stretched"; else ""
  std::int64_t least = 1;  // tokens
  std::int64_t most = 0;   // 0: no end
};
Lengths lengths_of(const Rope&, const Frequencies&);
// "short list, lengths to 4096"; "" where they hold for every length.
std::string which_lengths(const Lengths&);
std::string which_lengths(const Rope&, const Frequencies&);

}  // namespace rotary::cli
