// Hooks for the behaviour of one model, or of a few by one publisher, that no field of families.h describes. A hook is
// called at its stage of the reading; null, and every other default, means nothing special. The functions are in
// quirks.cpp and towers.cpp, with the rows, which models.json names, at the end of each file.
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
  int (*layer_count)(const Part&) = nullptr;  // replaces the file's number
  void (*layers)(const Part&, std::vector<Layer>&) = nullptr;

  // ---- heads ----
  HeadShape (*head_shape)(const Part&) = nullptr;         // replaces heads and head_dim
  std::optional<int> (*kv_heads)(const Part&) = nullptr;  // before the keys of the number are read
  int (*head_dim)(const Part&, int heads) = nullptr;      // replaces read_head_dim
  void (*heads_of_type)(const Part&, const std::string& layer_type,
                        HeadShape&) = nullptr;  // read_heads_of_type

  // ---- the rotated part of a head ----
  std::optional<int> (*rotary_dim)(const Part&, const HeadShape&) = nullptr;  // if the file has no fraction

  // ---- the parameters of the rope ----
  Pairing (*pairing)(const Part&, Pairing) = nullptr;
  double (*base)(const Part&) = nullptr;                     // replaces base_key
  std::optional<double> (*partial)(const Layer&) = nullptr;  // if the rope's object has none
  std::optional<bool> (*is_scaled)(const Part&, const std::string& layer_type) = nullptr;  // by rope_scaling

  // ---- scaling ----
  std::optional<Object> (*scaling)(const Part&) = nullptr;  // the object of its keys, beside rope_scaling
  void (*yarn)(const Part&, Yarn&) = nullptr;  // all but extrapolation_factor and attn_factor's effect is settled
  void (*longrope)(const Part&, LongRope&) = nullptr;

  // ---- the whole ----
  void (*rope)(const Part&, ModelRope&) = nullptr;  // all but its scaling and axes are set
  // For a text model's heads with several rotated blocks: returns a rope for each. Null: one block.
  std::vector<ModelRope> (*blocks)(const Part&, const ModelRope&) = nullptr;
};

const Quirk* find_quirk(std::string_view name) noexcept;

// ---- ropes of several axes ----

// The layout of axes of one model: of vision towers, and of a few other models.
struct TowerLayout {
  std::string_view name;
  // Sets rotary_dim, exponent_dim, index, axis and inv_freq, as far as the layout needs them, for a rope whose head_dim
  // and base are set.
  void (*lay_out)(const Part&, const RopeKeys&, Rope&);
  // For heads with several rotated blocks: returns a rope for each. Null: one block.
  std::vector<ModelRope> (*blocks)(const ModelRope&) = nullptr;
};

const TowerLayout* find_layout(std::string_view name) noexcept;

}  // namespace rotary::files
