// The ropes of the classes of diffusers: the rows of "diffusers" in files/models/models.json, whose fields have the
// names of these members and state the values that differ from the defaults. Read by files/config/diffusers.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "families.h"

namespace rotary::files {

// The number of elements of a head for each axis, if no key lists them.
enum class Split : std::uint8_t {
  none,     // a key must list them
  equal,    // D / axes each
  sixths,   // 2 floor(D / 6) for height and for width, the rest for time (Wan)
  thirds,   // likewise, if floor(D / 3) is even; else the class mixes two axes in a pair (ChronoEdit)
  eighths,  // floor(D / 4) for time, 3 floor(D / 8) for height and for width (CogVideoX)
  half,     // floor(D / 2) for the one axis
};

// The pairs of each axis.
enum class Laid : std::uint8_t {
  in_turn,       // ttt hhh www, each with its own run of frequencies
  by_turns,      // h w h w ..., likewise
  interleaved,   // t h w t h w ... t t t over one run; the key of widths counts pairs (Qwen3-VL's M-RoPE)
  blocks,        // each axis has a rotated block of its own
  across_heads,  // t h w t h w ..., pi/2 times a rising run over the pairs of all heads (LTX); coordinates in [-1, 1]
  learned,       // from the checkpoint's tensor [axes, heads, pairs] named in `widths` (Mochi)
  joined,        // one axis has all widths together
};

// The share of a head that the widths may cover.
enum class Fill : std::uint8_t { whole, whole_or_half, any };

struct DiffusersRope {
  std::string_view type = {};   // the _class_name, and after a slash a part with a rope of its own
  std::string defaults = "{}";  // the class's defaults for the keys below, as JSON
  Pairing pairing = Pairing::interleaved;
  std::string_view pairing_key = {};  // its value is "interleaved", or "split" for half
  // Names of the axes, in the order of a position's coordinates; empty: one axis.
  std::vector<std::string_view> axes = {"time", "height", "width"};
  std::vector<std::string_view> layers = {"num_layers"};  // one key, or several that are added
  std::string_view heads = "num_attention_heads";         // "": hidden / head_dim
  std::string_view kv_heads = {};                         // "": as heads
  std::string_view head_dim = "attention_head_dim";
  // The first key of each list that the file has counts. head_dim defaults to hidden / heads; with neither head_dim nor
  // heads it is the sum of the widths.
  std::vector<std::string_view> hidden = {};
  std::vector<std::string_view> widths = {};  // a list, or one number for each axis
  int width_unit = 1;                         // elements per unit of widths
  Split split = Split::none;
  Laid laid = Laid::in_turn;
  Fill fill = Fill::whole;
  double base = 10000;
  std::string_view base_key = {};
  std::vector<std::string_view> stretch = {};  // a list, or a key for each axis: divides the coordinates
  std::string_view pace = {};                  // a number that multiplies every frequency
  std::string_view ntk = {};  // a list: multiplies the base of an axis of width d by this^(d / (d - 2))
  std::string_view longrope = {};              // an object with short_factor and long_factor (OmniGen)
  Flag turns_where = {};
  std::vector<std::string_view> harmless = {};  // rope keys that limit or compute the positions
  std::string_view remark = {};
};

std::vector<std::string_view> diffusers_types();  // a class precedes its parts
const DiffusersRope* find_diffusers(std::string_view type);
std::vector<const DiffusersRope*> ropes_of_class(std::string_view type);
std::string part_of_class(const DiffusersRope&);  // "" for the class itself

std::vector<int> split_head(Split, int head_dim, int axes);  // the width of each axis
// Reorders pairs from axis by axis, with equal numbers, to alternating axes.
void take_turns(Rope&, int axes);
// Sets heads, summed_axes and inv_freq of Laid::across_heads; surplus pairs at the start do not rotate.
void lay_across_heads(Rope&, int heads, int axes);

}  // namespace rotary::files
