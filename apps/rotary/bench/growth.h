// Time against amount of work, from one head of one token to beyond the last cache, to find where it is not linear.
#pragma once

#include <string>
#include <vector>

#include "apps/shared/plot/plot.h"
#include "measure.h"

namespace rotary::cli::bench {

// A series of cells that differ in their number of elements.
struct Series {
  std::string name;
  std::vector<Cell> cells;  // by rising number of elements
  bool regular = true;  // powers of two from the start of a page; false for odd sizes, strides, page ends and aliasing
};

// Series with the op, dtype, pairing, layout and head_dim of base, in place or not as base, on 1 and on `threads`
// threads.
std::vector<Series> growth(const Cell& base, unsigned threads);

struct Measured {
  Series series;
  std::vector<Result> results;  // one for each cell
};

// ns/element relative to what the neighbours predict: the next smaller and the next larger regular cell with the same
// number of threads, interpolated on logarithmic axes. 0 if one of them is missing.
double ratio_to_neighbours(const std::vector<Measured>&, const Result&);

struct Outlier {
  const Result* result = nullptr;
  std::string series;
  double ratio = 0;
};
Outlier worst(const std::vector<Measured>&);  // the largest ratio; result is null if no cell has two neighbours

// A level of memory, which serves working sets of up to `bytes` bytes.
struct Level {
  std::string name;  // "L1", "memory"
  double gb_per_s = 0;
  double bytes = 0;
};
// Measured with one thread, on working sets of half of each cache and of four times the last one.
std::vector<Level> levels(Bench&, bool in_place);

// ns per element against elements, with the level of memory that each working set lies in.
Plot growth_plot(const std::vector<Measured>&, const std::vector<Level>&);

}  // namespace rotary::cli::bench
