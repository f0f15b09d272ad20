// The architectures of GGUF files, the section "architectures" of data/models.json: general.architecture in gguf 0.19,
// and the rope that llama.cpp gives it in llama_model_rope_type and the graphs of src/models. bert and starcoder have a
// rope type there, but learned positions; gptj is left out because llama.cpp does not run it.
#pragma once

#include <cstdint>
#include <string_view>

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
  std::string_view name = {};
  GgufRopeType rope_type = GgufRopeType::neox;
  GgufQuirk quirk = GgufQuirk::plain;
  int period = 0;             // of the sliding window: the last layer of each period has none; 0: a key must give it
  bool window_10000 = false;  // without freq_base_swa, the layers with a window have base 10000
};

// nullptr: not known.
const GgufArchitecture* find_architecture(std::string_view name);

}  // namespace rotary::files
