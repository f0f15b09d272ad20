// Time against work, from one head of one token to beyond the last cache: is it a straight line, and where not?
#pragma once

#include <string>
#include <vector>

#include "apps/shared/plot/plot.h"
#include "measure.h"

namespace rotary::cli::bench {

// A series of cells that differ in their number of elements.
struct Series {
  std::string name;
  std::vector<Cell> cells;  // rising
  bool regular = true;      // powers of two from the start of a page; else: odd sizes, strides, page ends, aliasing
};

// Of the base cell's op, dtype, pairing, layout, head_dim and place, with 1 and threads threads.
std::vector<Series> growth(const Cell& base, unsigned threads);

struct Measured {
  Series series;
  std::vector<Result> results;  // one for each cell
};

// ns/element relative to that of the neighbours: the two regular cells of as many threads around it, between which a
// straight line is drawn on logarithmic axes. 0 where there are no two.
double ratio_to_neighbours(const std::vector<Measured>&, const Result&);

struct Outlier {
  const Result* result = nullptr;
  std::string series;
  double ratio = 0;
};
Outlier worst(const std::vector<Measured>&);  // of the largest ratio; result is null where no cell has two neighbours

// The memory that serves working sets of up to so many bytes.
struct Level {
  std::string name;  // "L1", "memory"
  double gb_per_s = 0;
  double bytes = 0;
};
// By moving half of each cache, and four times the last one, with one thread.
std::vector<Level> levels(Bench&, bool in_place);

Plot growth_plot(const std::vector<Measured>&, const std::vector<Level>&);

}  // namespace rotary::cli::bench
