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

// The metadata of a file that is being read. Keys are given without the architecture's name.
struct GgufKeys {
  GgufKeys(const Gguf& file, const ConfigOptions& options)
      : gguf(file), reading{options}, keys(file.metadata(), "", reading.ledger) {}
  GgufKeys(const GgufKeys&) = delete;
  GgufKeys& operator=(const GgufKeys&) = delete;

  std::string own(const std::string& key) const { return name + "." + key; }
  bool has(const std::string& key) const { return keys.has(own(key)); }
  void note(const std::string& sentence) { reading.note("", sentence); }
  std::optional<double> number(const std::string& key) const { return keys.number(own(key)); }
  // Records the key that a value of the current rope comes from.
  void record(const char* value, const std::string& key) { reading.origins.read(value, keys, own(key)); }
  void record_or_by_default(const char* value, const std::string& key) {
    reading.origins.read_or_by_default(value, keys, own(key), name);
  }
  std::optional<int> whole(const std::string& key, int min, int max) const;
  int needed(const std::string& key, int max) const;  // throws CONFIG_MISSING
  [[noreturn]] void missing(const std::string& key, const std::string& subject) const;

  const Gguf& gguf;
  Reading reading;
  Object keys;
  std::string name;
  GgufArchitecture arch = {"", GgufRopeType::neox};
};

// Sets the scaling of used.rope, whose shape and base are set. plain: the layer has no scaling.
void set_gguf_scaling(GgufKeys&, ModelRope& used, bool plain);

// Throws CONFIG_KEY, CONFIG_VALUE, CONFIG_MISSING, MODEL_TYPE, ROPE, TENSOR.
Model read_gguf(const InputFile&, const ConfigOptions&);

}  // namespace rotary::files
