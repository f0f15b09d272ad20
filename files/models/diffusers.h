// The ropes of the classes of diffusers: the rows of "diffusers" in files/models/models.json, whose fields have the
// names of these members and state what differs from them. Read by files/config/diffusers.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "families.h"

namespace rotary::files {

// How many elements of a head each axis turns, where no key lists them.
enum class Split : std::uint8_t {
  none,     // a key must
  equal,    // D / axes each
  sixths,   // 2 floor(D / 6) for height and for width, the rest for time (Wan)
  thirds,   // the same where floor(D / 3) is even; else the class mixes two axes in a pair (ChronoEdit)
  eighths,  // floor(D / 4) for time, 3 floor(D / 8) for height and for width (CogVideoX)
  half,     // floor(D / 2) for the one axis
};

// Which pairs each axis turns.
enum class Laid : std::uint8_t {
  in_turn,       // ttt hhh www, each with its own run of frequencies
  by_turns,      // h w h w ..., the same
  interleaved,   // t h w t h w ... t t t over one run; the key of widths counts pairs (Qwen3-VL's M-RoPE)
  blocks,        // each axis turns a block of its own
  across_heads,  // t h w t h w ..., pi/2 times a rising run over the pairs of all heads (LTX); coordinates in [-1, 1]
  learned,       // by a tensor [axes, heads, pairs] of the checkpoint, whose name `widths` is (Mochi)
  joined,        // one axis turns what the widths make together
};

// How much of a head the widths may make.
enum class Fill : std::uint8_t { whole, whole_or_half, any };

struct DiffusersRope {
  std::string_view type = {};        // the _class_name, and behind a slash a part with a rope of its own
  std::string defaults = "{}";       // the class's own, of the keys below, as JSON
  Pairing pairing = Pairing::interleaved;
  std::string_view pairing_key = {};  // says "interleaved", or "split" for half
  // Their names, in the order of a position's coordinates; empty: one.
  std::vector<std::string_view> axes = {"time", "height", "width"};
  std::vector<std::string_view> layers = {"num_layers"};  // one key or several, whose sum counts
  std::string_view heads = "num_attention_heads";         // "": hidden / head_dim
  std::string_view kv_heads = {};                         // "": as many
  std::string_view head_dim = "attention_head_dim";
  // The first key of each list that the file says counts. head_dim is hidden / heads; with neither head_dim nor heads
  // it is the sum of the widths.
  std::vector<std::string_view> hidden = {};
  std::vector<std::string_view> widths = {};  // a list, or one number for each axis
  int width_unit = 1;                         // elements that it counts in
  Split split = Split::none;
  Laid laid = Laid::in_turn;
  Fill fill = Fill::whole;
  double base = 10000;
  std::string_view base_key = {};
  std::vector<std::string_view> stretch = {};  // a list, or a key for each axis: the coordinates are divided by it
  std::string_view pace = {};                  // a number by which every frequency is multiplied
  std::string_view ntk = {};                   // a list: the base of an axis is times this^(d / (d - 2)), d its width
  std::string_view longrope = {};              // an object with short_factor and long_factor (OmniGen)
  Flag turns_where = {};
  std::vector<std::string_view> harmless = {};  // rope keys that bound the positions or make them
  std::string_view remark = {};
};

std::vector<std::string_view> diffusers_types();  // a class stands before its parts
const DiffusersRope* find_diffusers(std::string_view type);
std::vector<const DiffusersRope*> ropes_of_class(std::string_view type);
std::string part_of_class(const DiffusersRope&);  // "" for the class itself

std::vector<int> split_head(Split, int head_dim, int axes);  // the width of each axis
// Deals pairs that stand axis by axis, as many of each, out by turns.
void take_turns(Rope&, int axes);
// Sets heads, summed_axes and inv_freq of Laid::across_heads; pairs that are left over at the start stand still.
void lay_across_heads(Rope&, int heads, int axes);

}  // namespace rotary::files
