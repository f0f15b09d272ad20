// A model's config.json -> its ropes. Link rotary_files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"

namespace rotary {

// Where a value of a rope came from.
enum class Origin : std::uint8_t {
  given,          // a key of the file
  model_default,  // the file leaves it out: the default of this model_type's own code
  derived,        // computed from other values
};
ROTARY_API const char* name(Origin) noexcept;           // "given", "default", "derived"
ROTARY_API Origin parse_origin(std::string_view name);  // throws VALUE

struct ValueOrigin {
  std::string value;  // "base", "head_dim", "scaling.factor", ...
  Origin origin = Origin::given;
  std::string from;  // the key's path, whose default it is (a model_type; of yarn's details: yarn), or the formula
};

// One rope of a model, and who uses it.
struct ModelRope {
  std::string part;                      // dotted path of the sub-config: "", "text_config", "vision_config"
  std::vector<int> layers;               // indices of the layers that use it
  std::vector<int> layers_without_rope;  // indices of the part's layers that use none
  int heads = 0;
  int kv_heads = 0;
  int first = 0;                          // element of the head where the rotated block begins
  Rope rope;                              // rope.rotary_dim is always filled in
  std::int64_t context = 0;               // max_position_embeddings; 0: the config does not say
  std::vector<ValueOrigin> origins = {};  // one for each value above, and for each value of the scaling
  // Learned: the tensor of the checkpoint whose name is or ends in one of these holds log(rope.multiplier); it is 0
  // at initialisation. Empty: nothing is learned.
  std::vector<std::string> log_multiplier = {};
};

struct Model {
  std::string model_type;
  std::vector<ModelRope> ropes;
  std::vector<std::string> notes;  // every default taken, every dialect chosen, one sentence each
};

struct ConfigOptions {
  std::optional<Pairing> pairing;  // decides where the model_type is unknown, overrides where it is known
  bool class_defaults = false;     // a top level that does not say its layers and heads takes the model_type's own
};

// config.json of Hugging Face, params.json of Mistral and Meta, or a GGUF file; path is the file, or the folder of
// either JSON. A rope key that nothing consumes is an error. Throws FILE, JSON, FORMAT, TENSOR, ROPE, CONFIG_KEY,
// CONFIG_VALUE, CONFIG_MISSING, MODEL_TYPE (unknown, and no pairing given); read_config's sentences name the file.
ROTARY_API Model read_config(const std::filesystem::path& path, const ConfigOptions& = {});
ROTARY_API Model parse_config(std::string_view json, const ConfigOptions& = {});

// ---- rotate by a model's rope --------------------------------------------------------------------

// As rotate_qk(q, k, Rope, ...) of rotary.h, with heads of the rope's whole head_dim: elements [rope.first, rope.first
// + rotary_dim) of every head rotate, in place.
ROTARY_API void rotate_qk(const Heads& q, const Heads& k, const ModelRope& rope, std::int64_t first_position,
                          const RotateOptions& = {});

// ---- learned frequencies -------------------------------------------------------------------------

// One value per pair: an .npy, or a safetensors file (its only tensor, or the one named inv_freq or ending in it).
// Throws FILE, FORMAT, TENSOR (none or several, not finite), DTYPE (not F64, F32, F16, BF16), SHAPE.
ROTARY_API std::vector<double> read_inv_freq(const std::filesystem::path&);
// model.ropes[rope] rotates by inv_freq; from names it in origins and notes. Throws SHAPE.
ROTARY_API void set_inv_freq(Model&, std::size_t rope, std::vector<double> inv_freq, const std::string& from);
// What a checkpoint says of the frequencies: weights is model.safetensors, model.safetensors.index.json or the folder
// of either. Reads the multipliers of the ropes that learn one. The inv_freq buffers that older checkpoints carry are
// compared, told in the notes and not used. Throws FILE, FORMAT, JSON, TENSOR, DTYPE, SHAPE.
ROTARY_API void apply_weights(Model&, const std::filesystem::path& weights);

// ---- writing a rope ------------------------------------------------------------------------------

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
ROTARY_API std::string rope_parameters(const Rope&);
// The same of a rotated block that ends the head (first > 0: DeepSeek's): the config's qk_rope_head_dim says how wide
// it is, so partial_rotary_factor is left out. Throws ROPE too for a block in the middle of the head.
ROTARY_API std::string rope_parameters(const ModelRope&);

}  // namespace rotary
