// Measures a cell: verifies it, then times it in turn with the ceiling, moving the same bytes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cell.h"
#include "measure/ceiling.h"
#include "measure/medians.h"
#include "memory.h"
#include "rotary/threads.h"

namespace rotary::cli::bench {

using namespace rotary::detail;

// Further measurements on a CUDA device.
struct OnDevice {
  double graph_seconds = 0;    // of one run, replayed from a graph of many runs
  double copy_seconds = 0;     // of the CUDA runtime's copy of the same bytes, also for cells in place; 0 for a table
  double unfused_seconds = 0;  // of the separate operations that an appending cell fuses
  double unfused_graph_seconds = 0;  // likewise, replayed
  int launches = 1;                  // kernel launches in one run
  int sets = 1;                      // sets of memory that are used in turn
  const char* ceiling = "update";    // update, copy (by the CUDA runtime), kernel (a copy by our kernel), fill
};

struct Result {
  Cell cell;
  double seconds = 0;          // of one run of the cell's work
  double ceiling_seconds = 0;  // of moving the same bytes
  Move ceiling;                // the fastest way of moving them
  double cold_seconds = 0;     // of a table: constructed in new storage
  int samples = 0;             // the times above are medians of this many
  std::int64_t verified = 0;   // elements or pairs that were compared with the reference and equal
  std::optional<OnDevice> device = {};

  double ns_per_element() const;
  double gb_per_s() const;
  double ceiling_gb_per_s() const;
  double percent_of_ceiling() const;
};

// work(n) runs it n times.
using Repeat = std::function<void(int)>;

struct Pace {
  double seconds = 0.2;  // for all works together; more if the least number of samples takes longer
  bool warm_up = false;  // one unmeasured run before each sample, so that the caches are as the work leaves them
};
// Median seconds of one run of each work, sampled in turn. A sample is as many runs as take 40 microseconds or more.
Medians median_seconds(const std::vector<Repeat>& works, const Pace&);

class Bench {
 public:
  // seconds: how long a cell is timed, roughly; at least 7 samples, or 3 of cells that take far longer.
  explicit Bench(double seconds) : seconds_(seconds) {}

  // Throws CHECK if the result is wrong, and what the operations throw. Leaves the cell's target in use.
  Result measure(const Cell&);

  // GB/s of repeatedly moving a working set of `bytes`, in place or from one half to the other: the ceiling of the
  // memory level that it fits in.
  double level_gb_per_s(std::size_t bytes, bool in_place);

 private:
  Result measure_heads(const Cell&);
  Result measure_table(const Cell&);
  const Executor& executor(unsigned threads);

  double seconds_;
  Arena arena_;
  std::map<unsigned, std::unique_ptr<ThreadPool>> pools_;
};

}  // namespace rotary::cli::bench
