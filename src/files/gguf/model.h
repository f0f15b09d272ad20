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

// What ggml's rope does with the heads as the GGUF holds them.
enum class GgufTurn : std::uint8_t {
  none,        // no rotary positions
  norm,        // (2i, 2i + 1)
  neox,        // (i, i + n)
  mrope,       // neox, one run of pairs per axis
  imrope,      // neox, axes in turn
  norm_mrope,  // mrope where the file has sections, else norm
  neox_mrope,  // mrope where the file has sections, else neox
};

// What an architecture's graph does that no key of the file says.
enum class GgufQuirk : std::uint8_t {
  plain,
  permuted,         // norm, and conversion from half reordered the rows of q and k
  permuted_switch,  // permuted, and rope.scaling.finetuned false means: no rope (Granite)
  permuted_gaps,    // permuted, and every 4th layer has no rope
  gaps,             // every 4th layer (3, 7, ...) has no rope; a sliding_window of 0 says: all have
  gaps_first,       // layers 0, 4, 8, ... have no rope, where there is a sliding window
  mla,              // the rotated block is the last of the head
  window_only,      // only the layers with a sliding window turn
  window_plain,     // the layers with a sliding window have no scaling, and may have a base of their own
  window_after,     // the same, and the first layer of each period has none, not the last
  hybrid,           // attention on every 4th layer only (full_attention_interval)
};

struct GgufArchitecture {
  std::string_view name;
  GgufTurn turn;
  GgufQuirk quirk = GgufQuirk::plain;
  int period = 0;             // of the sliding window: the last layer of each period has none; 0: a key must say
  bool window_10000 = false;  // base of the layers with a window, where freq_base_swa is absent
};

const GgufArchitecture* find_architecture(std::string_view name) noexcept;

constexpr int max_dim = 65536;

// One reading of one file: its metadata, by keys of which the architecture's name is left out.
struct GgufKeys {
  GgufKeys(const Gguf& file, const ConfigOptions& options)
      : gguf(file), reading{options}, keys(file.metadata(), "", reading.ledger) {}
  GgufKeys(const GgufKeys&) = delete;
  GgufKeys& operator=(const GgufKeys&) = delete;

  std::string own(const std::string& key) const { return name + "." + key; }
  bool has(const std::string& key) const { return keys.has(own(key)); }
  void note(const std::string& sentence) { reading.note("", sentence); }
  std::optional<double> number(const std::string& key) const { return keys.number(own(key)); }
  // Where a value of the rope at hand comes from.
  void record(const char* value, const std::string& key) { reading.origins.read(value, keys, own(key)); }
  void record_or_by_default(const char* value, const std::string& key) {
    reading.origins.read_or_by_default(value, keys, own(key), name);
  }
  std::optional<int> whole(const std::string& key, int least, int most) const;
  int needed(const std::string& key, int most) const;  // throws CONFIG_MISSING
  [[noreturn]] void missing(const std::string& key, const std::string& whom) const;

  const Gguf& gguf;
  Reading reading;
  Object keys;
  std::string name;
  GgufArchitecture arch = {"", GgufTurn::neox};
};

// The scaling of used.rope, whose shape and base are set; plain: a layer that has none.
void set_gguf_scaling(GgufKeys&, ModelRope& used, bool plain);

// Throws CONFIG_KEY, CONFIG_VALUE, CONFIG_MISSING, MODEL_TYPE, ROPE, TENSOR.
Model read_gguf(const InputFile&, const ConfigOptions&);

}  // namespace rotary::files
