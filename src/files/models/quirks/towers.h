// Layouts of ropes of several axes that are a model's own: vision towers, and a few more. A row of data/models.json
// names one; several serve one model only.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace rotary {
struct ModelRope;
struct Rope;
}  // namespace rotary

namespace rotary::files {

struct Part;
struct Reading;
struct RopeKeys;

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

namespace towers {
extern const std::span<const Tower> one_head;  // one_head.cpp; the others are in towers.cpp
}  // namespace towers

// The row of that name; nullptr: there is none.
const Tower* find_tower(std::string_view name) noexcept;

// Of a rope of two axes: throws CONFIG_VALUE unless the head holds a whole number of pairs for each.
void require_quarters(const Part&, int head_dim);
// Each axis has a quarter of the elements as pairs, with the frequencies b^(-2k/(D/2)), k = 0, 1, ...
void lay_out_two_axes(Rope&, bool rows_first, bool by_turns);
// partial_rotary_factor: the rope's own, the part's, the family's.
double partial_of(const Part&, const RopeKeys&);

}  // namespace rotary::files
