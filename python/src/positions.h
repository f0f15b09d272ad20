// Positions from Python: an int, a range, nested lists, any array of integers or floats.
#pragma once

#include <cstdint>
#include <vector>

#include "python.h"
#include "rotary/table.h"

namespace rotary::python {

struct GivenPositions {
  std::vector<std::int64_t> integers;  // row-major; or
  std::vector<double> reals;           // these, the other empty
  bool real = false;
  std::vector<std::int64_t> shape;  // as given: [], [tokens], [batch, tokens], [axes, tokens] or [axes, batch, tokens]
  int axes = 1;
  int batch = 1;
  bool batched = false;

  Positions view() const;       // valid as long as this
  std::int64_t length() const;  // the largest position, rounded down, plus 1; at least 0
};

// axes: of the rope; where it has one, two dimensions are [batch, tokens], else [axes, tokens]. Throws SHAPE, POSITION;
// TypeError for what holds no numbers.
GivenPositions positions_from(PyObject* object, int axes);

}  // namespace rotary::python
