// What one model, or a few of one maker, do that no field of families.h states: hooks at the stages of the
// reading. A hook is called where its stage reaches it; null, and every other default: nothing special. The functions
// stand in quirks.cpp and towers.cpp, and at the end of each file the rows, which models.json names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"

namespace rotary {
struct ModelRope;
struct Rope;
}  // namespace rotary

namespace rotary::files {

struct HeadShape;
struct Layer;
class Object;
struct Part;
struct RopeKeys;

// What the partial_rotary_factor of an MLA is a fraction of.
enum class Fraction : std::uint8_t {
  rope_block,
  head,
  nothing,  // qk_rope_head_dim decides, whatever the file's fraction says
};

// What the model learns of a rope, which its checkpoint holds.
enum class Learns : std::uint8_t {
  nothing,
  multiplier,       // exp(tensor) multiplies the frequencies
  directions,       // inv_freq of every head, [axes, heads, pairs]
  last_directions,  // the same of the last n pairs by height and width, [heads, n, 2]
};
struct Learned {
  Learns what = Learns::nothing;
  std::string_view tensor = {}, also = {};  // the end of the tensor's name, and of its name in other checkpoints
};

struct Quirk {
  std::string_view name = {};  // Family::quirk in data/models.json

  // ---- layers ----
  int (*layer_count)(const Part&) = nullptr;  // in place of what the file says
  void (*layers)(const Part&, std::vector<Layer>&) = nullptr;
  bool lists_bases = false;  // rope_theta may be a list, one base for each layer

  // ---- heads ----
  HeadShape (*head_shape)(const Part&) = nullptr;         // in place of heads and head_dim
  std::optional<int> (*kv_heads)(const Part&) = nullptr;  // before the keys of their number
  int (*head_dim)(const Part&, int heads) = nullptr;      // in place of read_head_dim
  void (*heads_of_type)(const Part&, const std::string& layer_type,
                        HeadShape&) = nullptr;  // read_heads_of_type

  // ---- how much of a head turns ----
  Fraction fraction = Fraction::rope_block;
  std::optional<int> (*rotary_dim)(const Part&, const HeadShape&) = nullptr;  // where no fraction is given

  // ---- the parameters of the rope ----
  Pairing (*pairing)(const Part&, Pairing) = nullptr;
  double (*base)(const Part&) = nullptr;                     // in place of base_key
  std::optional<double> (*partial)(const Layer&) = nullptr;  // where the rope's object has none
  std::optional<bool> (*is_scaled)(const Part&, const std::string& layer_type) = nullptr;  // by rope_scaling

  // ---- scaling ----
  std::string_view scaling_key = {};  // where rope_scaling lies under another name; factor may be missing there
  std::optional<Object> (*scaling)(const Part&) = nullptr;  // the object of its keys, beside rope_scaling
  bool yarn_is_longrope = false;
  bool alpha_is_ntk = false;                   // dynamic + alpha is static NTK
  void (*yarn)(const Part&, Yarn&) = nullptr;  // all but extrapolation_factor and attn_factor's effect is settled
  void (*longrope)(const Part&, LongRope&) = nullptr;

  // ---- axes ----
  bool sections_are_weights = false;  // the family's sections share the pairs out in that proportion

  // ---- the whole ----
  void (*rope)(const Part&, ModelRope&) = nullptr;  // all but its scaling and axes are set
  Learned learned = {};
};

// The row of that name; nullptr: there is none.
const Quirk* find_quirk(std::string_view name) noexcept;

// ---- ropes of several axes ----

// A layout that is a model's own: vision towers, and a few more. A row of data/models.json names one; several serve one
// model only.
struct Tower {
  std::string_view name;  // Family::tower in data/models.json
  const char* words;      // for the notes
  const char* axes;       // their names, in the order of a position's coordinates, separated by blanks
  const char* width;      // the formula of rotary_dim
  // Sets rotary_dim, exponent_dim, index, axis and inv_freq, as far as the layout needs them, of a rope that has its
  // head_dim and base.
  void (*lay_out)(const Part&, const RopeKeys&, Rope&);
  // Where a head has several rotated blocks: a rope for each. Null: one.
  std::vector<ModelRope> (*blocks)(const ModelRope&) = nullptr;
};

// The row of that name; nullptr: there is none.
const Tower* find_tower(std::string_view name) noexcept;

}  // namespace rotary::files
