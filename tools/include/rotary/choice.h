// The choice of a rope, a layer, positions and a layout for a model and tensors. Link rotary_tools.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "rotary/config.h"
#include "rotary/positions.h"

namespace rotary {

struct Choice {
  std::string config = {};                    // the model's name in errors; "" if it has none
  std::optional<int> rope = {};               // index in Model::ropes; not set: the layer's, else the best fit
  std::optional<int> layer = {};              // for all tensors; not set: the layer in each tensor's name
  std::optional<std::int64_t> length = {};    // for scalings that depend on it; default: largest position + 1
  std::optional<PositionSet> positions = {};  // also a set that is not read yet; default: 0, 1, 2, ...
  bool same_on_every_axis = false;            // positions of one axis serve every axis of coordinates
  std::string layout = {};   // "bthd", "bhtd", "tbhd", "thd", "htd", "td", "hd", "flat"; "": from the tensor
  bool query_scale = false;  // queries are also multiplied by the scale of their position
  bool names_rope() const noexcept { return rope || layer; }
};

// The positions for a model's rope; 0, 1, 2, ... is an open set. A file has as many axes as the rope of the same part
// that has the most. Throws what parse_positions throws, and POSITION if a rope of several image coordinates gets
// positions of one axis without same_on_every_axis, or a rope that sums over axes gets fewer axes.
ROTARY_API PositionSet positions_of(const std::string& operation, const Choice&, const Model&, const ModelRope&);

// The rope of the model that is chosen by its index or by its layer, else the model's first. Throws ROPE if the model
// has no such rope or layer, if several ropes rotate the layer, or none does (NoPE).
ROTARY_API const ModelRope& chosen_rope(const Model&, const Choice&);

// ---- the place of a config -----------------------------------------------------------------------

// The path that config names: a file or folder of that name, else the snapshot of the repository "org/name" or
// "org/name@revision" in the cache. The cache is the folder HF_HUB_CACHE, else $HF_HOME/hub, else
// ~/.cache/huggingface/hub. Streams ("-", /dev/stdin) stay as they are. Nothing is downloaded. Throws FILE for a
// repository that is not in the cache, with the command that downloads it.
ROTARY_API std::filesystem::path config_path(const std::string& config);
// The text of that config; "" for a GGUF file. A stream is read once: a second call returns the same text. Throws FILE,
// JSON.
ROTARY_API std::string config_text_at(const std::string& config);

}  // namespace rotary
