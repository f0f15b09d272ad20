// The cells of the sheet of models, which rotary models and docs/models.md share.
#pragma once

#include <string>
#include <vector>

#include "files/models/known.h"
#include "rotary/config.h"

namespace rotary::cli {

// One rope of a part; an unknown cell is "-".
struct SheetRow {
  std::string heads;       // "32", "32/8" with fewer heads of k
  std::string head_dim;    //
  std::string rotary_dim;  // "64", "64 from 128", "50%" of a head whose size is not known
  std::string pairing;     // "half", "half, clockwise"
  std::string base;        //
  std::string scaling;     // "default", "yarn 32"
  std::string axes;        // how many coordinates a position has
  std::string layers;      // "32", "24 of 32"
};

// partial: KnownModel::partial.
std::vector<SheetRow> sheet_rows(const std::vector<ModelRope>& ropes_of_one_part, double partial = 1);

int axes_of(const Rope&);

}  // namespace rotary::cli
