// Layouts of ropes of several axes that are a model's own: vision towers, and a few more. A row of families.cpp points
// to one; several serve one model only.
#pragma once

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
  const char* words;  // for the notes
  const char* axes;   // their names, in the order of a position's coordinates, separated by blanks
  const char* width;  // the formula of rotary_dim
  // Sets rotary_dim, exponent_dim, index, axis and inv_freq, as far as the layout needs them, of a rope that has its
  // head_dim and base.
  void (*lay_out)(Reading&, const Part&, const RopeKeys&, Rope&);
  // Where a head has several rotated blocks: a rope for each. Null: one.
  std::vector<ModelRope> (*blocks)(const ModelRope&) = nullptr;
};

namespace towers {

extern const Tower row_column;  // first half of the pairs rows, the rest columns, frequencies restart (Qwen-VL)
extern const Tower column_row;  // the same, columns first
extern const Tower column_row_by_turns;  // pair by pair, frequencies restart (Kimi)
extern const Tower minimax_m3;           // time, row, column: three equal runs, what does not divide stands still
extern const Tower pixtral;              // rows take b^(-2i/D) of even i, columns of odd i
extern const Tower efficientloftr;       // pair by pair, rows first; one_head.cpp
extern const Tower esmfold2;        // x, y and z of an atom, then its token, with a base of their own; esmfold2.cpp
extern const Tower gemma4;          // a block of the head for columns, then one for rows; gemma4.cpp
extern const Tower music_flamingo;  // window and frame, two runs of partial * head_dim elements; one_head.cpp

}  // namespace towers

// Of a rope of two axes: throws CONFIG_VALUE unless the head holds a whole number of pairs for each.
void require_quarters(const Part&, int head_dim);
// Each axis has a quarter of the elements as pairs, with the frequencies b^(-2k/(D/2)), k = 0, 1, ...
void lay_out_two_axes(Rope&, bool rows_first, bool by_turns);
// partial_rotary_factor: the rope's own, the part's, the family's.
double partial_of(const Part&, const RopeKeys&);

}  // namespace rotary::files
