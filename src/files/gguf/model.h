// A GGUF file's metadata as a Model: the stage of read_config for files that begin with "GGUF".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "files/config/stages.h"
#include "files/models/architectures.h"
#include "gguf.h"
#include "rotary/config.h"

namespace rotary::files {

constexpr int max_dim = 65536;

// The metadata under the architecture's name, as a part of a config: path_of(key) is the key as the file spells it.
struct GgufPart : Part {
  const Gguf& gguf;
  GgufArchitecture arch = {"", GgufRopeType::neox};
};

int needed(const Part&, const char* key, int most);  // throws CONFIG_MISSING
[[noreturn]] void missing(const Part&, const char* key, const std::string& subject);

// Sets the scaling of used.rope, whose shape and base are set. plain: the layer has no scaling.
void set_gguf_scaling(const GgufPart&, ModelRope& used, bool plain);

// Throws CONFIG_KEY, CONFIG_VALUE, CONFIG_MISSING, MODEL_TYPE, ROPE, TENSOR.
Model read_gguf(const InputFile&, const ConfigOptions&);

}  // namespace rotary::files
