// A GGUF file's metadata as a Model: the stage of read_config for files that begin with "GGUF".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "files/config/stages.h"
#include "gguf.h"
#include "rotary/config.h"

namespace rotary::files {

// The rotation that ggml applies to the heads as the GGUF stores them.
enum class GgufRopeType : std::uint8_t {
  none,        // no rotary positions
  norm,        // (2i, 2i + 1)
  neox,        // (i, i + n)
  mrope,       // neox, one run of pairs per axis
  imrope,      // neox, the pairs take the axes in turn
  norm_mrope,  // mrope if the file has sections, else norm
  neox_mrope,  // mrope if the file has sections, else neox
};

// Properties of an architecture's graph that no key of the file states.
enum class GgufQuirk : std::uint8_t {
  plain,
  permuted,         // norm; the conversion from half reordered the rows of q and k
  permuted_switch,  // permuted, and no rope if rope.scaling.finetuned is false (Granite)
  permuted_gaps,    // permuted, and every 4th layer has no rope
  gaps,             // every 4th layer (3, 7, ...) has no rope; if sliding_window is 0, all have one
  gaps_first,       // layers 0, 4, 8, ... have no rope if there is a sliding window
  mla,              // the rotated block is the last of the head
  window_only,      // only the layers with a sliding window have a rope
  window_plain,     // the layers with a sliding window have no scaling, and may have a base of their own
  window_after,     // the same; the first layer of each period has no window, not the last
  hybrid,           // attention on every 4th layer only (full_attention_interval)
};

struct GgufArchitecture {
  std::string_view name;
  GgufRopeType rope_type;
  GgufQuirk quirk = GgufQuirk::plain;
  int period = 0;             // of the sliding window: the last layer of each period has none; 0: a key must give it
  bool window_10000 = false;  // without freq_base_swa, the layers with a window have base 10000
};

const GgufArchitecture* find_architecture(std::string_view name) noexcept;

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
