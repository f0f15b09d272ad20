// Hooks for what one model, or a few of one maker, do and no field of families.h states, at the stages of the
// reading. A hook is called where its stage reaches it; null, and every other default: nothing special. The functions
// stand in quirks.cpp and towers.cpp, and at the end of each file the rows, which models.json names.
#pragma once

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

struct Quirk {
  std::string_view name = {};  // Family::quirk in files/models/models.json

  // ---- layers ----
  int (*layer_count)(const Part&) = nullptr;  // in place of what the file says
  void (*layers)(const Part&, std::vector<Layer>&) = nullptr;

  // ---- heads ----
  HeadShape (*head_shape)(const Part&) = nullptr;         // in place of heads and head_dim
  std::optional<int> (*kv_heads)(const Part&) = nullptr;  // before the keys of their number
  int (*head_dim)(const Part&, int heads) = nullptr;      // in place of read_head_dim
  void (*heads_of_type)(const Part&, const std::string& layer_type,
                        HeadShape&) = nullptr;  // read_heads_of_type

  // ---- how much of a head turns ----
  std::optional<int> (*rotary_dim)(const Part&, const HeadShape&) = nullptr;  // where no fraction is given

  // ---- the parameters of the rope ----
  Pairing (*pairing)(const Part&, Pairing) = nullptr;
  double (*base)(const Part&) = nullptr;                     // in place of base_key
  std::optional<double> (*partial)(const Layer&) = nullptr;  // where the rope's object has none
  std::optional<bool> (*is_scaled)(const Part&, const std::string& layer_type) = nullptr;  // by rope_scaling

  // ---- scaling ----
  std::optional<Object> (*scaling)(const Part&) = nullptr;  // the object of its keys, beside rope_scaling
  void (*yarn)(const Part&, Yarn&) = nullptr;  // all but extrapolation_factor and attn_factor's effect is settled
  void (*longrope)(const Part&, LongRope&) = nullptr;

  // ---- the whole ----
  void (*rope)(const Part&, ModelRope&) = nullptr;  // all but its scaling and axes are set
};

// The row of that name; nullptr: there is none.
const Quirk* find_quirk(std::string_view name) noexcept;

// ---- ropes of several axes ----

// A layout that is a model's own: of vision towers, and of a few more models.
struct TowerLayout {
  std::string_view name;
  // Sets rotary_dim, exponent_dim, index, axis and inv_freq, as far as the layout needs them, of a rope that has its
  // head_dim and base.
  void (*lay_out)(const Part&, const RopeKeys&, Rope&);
  // Where a head has several rotated blocks: a rope for each. Null: one.
  std::vector<ModelRope> (*blocks)(const ModelRope&) = nullptr;
};

// The row of that name; nullptr: there is none.
const TowerLayout* find_layout(std::string_view name) noexcept;

}  // namespace rotary::files
