// Writing what config.json says of a rope. Link rotary_files.
#pragma once

#include <string>

#include "rotary/files.h"

namespace rotary {

// The object rope_parameters of config.json, as transformers 5 has it, as JSON: rope_type, rope_theta,
// partial_rotary_factor (the part of the head that rotates; of Proportional its fraction), and every value of the
// scaling under the key that read_config reads. Put into a config of the same head_dim whose model_type reads these
// keys, it is read back as the same rope, value for value, with rotary_dim filled in. Pairing and direction are the
// model_type's.
// Not transformers' words: rope_type ntk (NtkFixed) with mixed_b, deepseek_yarn and telechat3-yarn, attn_factor and
// extrapolation_factor are vLLM's; rope_type ntk_aware (Ntk), trained_length (of Dynamic: transformers takes
// max_position_embeddings for it, so let the config say the same there), magnitude and mscale_ratio (of Yarn) are ours.
// They are written only where the value is not the default.
// Throws ROPE for what the object cannot say: inv_freq, multiplier, axis, index, an exponent_dim other than rotary_dim
// or one less, Proportional in a part of the head, numbers that read_config refuses.
std::string rope_parameters(const Rope&);
// The same of a rotated block that ends the head (first > 0: DeepSeek's): the config's qk_rope_head_dim says how wide
// it is, so partial_rotary_factor is left out. Throws ROPE too for a block in the middle of the head.
std::string rope_parameters(const ModelRope&);

}  // namespace rotary
