// Writing what config.json says of a rope. Link rotary_files.
#pragma once

#include <string>

#include "rotary/files.h"

namespace rotary {

// The object rope_parameters of config.json, as transformers 5 writes it: rope_type, rope_theta, partial_rotary_factor
// (the rotated part of the head), and every value of the scaling under the key that read_config reads, also those that
// transformers has no key for (docs/models.md lists them). Put into a config of the same head_dim whose model_type
// reads these keys, it is read back as the same rope, value for value. Pairing and direction are the model_type's.
// Dynamic: transformers reads max_position_embeddings for the trained length, so let the config say the same there.
// Throws ROPE for what the object cannot say: inv_freq, multiplier, axis, index, an exponent_dim of its own, numbers
// beyond the limits of read_config.
std::string rope_parameters(const Rope&);
// The same of a rotated block that ends the head (first > 0: DeepSeek's): the config's qk_rope_head_dim says how wide
// it is, so partial_rotary_factor is left out. Throws ROPE too for a block in the middle of the head.
std::string rope_parameters(const ModelRope&);

}  // namespace rotary
