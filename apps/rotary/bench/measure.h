// Measures a cell: verified first, then timed in turn with the ceiling of the same bytes.
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

// What is measured beside on a CUDA device.
struct OnDevice {
  double graph_seconds = 0;          // of one run, replayed from a graph of many
  double copy_seconds = 0;           // of the runtime's own copy of the same bytes, in place too; of a table 0
  double unfused_seconds = 0;        // of one verb after the other, where the cell has several in one
  double unfused_graph_seconds = 0;  // the same, replayed
  int launches = 1;                  // of kernels in one run
  int sets = 1;                      // of memory, in turn
  const char* ceiling = "update";    // update, copy (the runtime's), kernel (ours that copies), fill
};

struct Result {
  Cell cell;
  double seconds = 0;          // of one run of the cell's work
  double ceiling_seconds = 0;  // of moving the same bytes
  Traffic ceiling = Traffic::update;
  double cold_seconds = 0;    // of a table: constructed anew
  int samples = 0;            // of each, of which the above are medians
  std::int64_t verified = 0;  // elements or pairs compared with the reference; all of them equal
  std::optional<OnDevice> device = {};

  double ns_per_element() const;
  double gb_per_s() const;
  double ceiling_gb_per_s() const;
  double percent_of_ceiling() const;
};

// Runs the work that many times.
using Repeat = std::function<void(int)>;

struct Pace {
  double seconds = 0.2;  // for all works together, beyond the least number of samples
  bool warm_up = false;  // one run before each sample that is not measured: the caches as the work itself leaves them
};
// Of one run of each work, sampled in turn. A sample is as many runs as take 40 microseconds or more.
Medians median_seconds(const std::vector<Repeat>& works, const Pace&);

class Bench {
 public:
  // seconds: about how long a cell is timed; large ones take 7 samples, the largest 3.
  explicit Bench(double seconds) : seconds_(seconds) {}

  // Throws CHECK where the result is wrong, and what the verbs throw. Leaves the cell's target in use.
  Result measure(const Cell&);

  // GB/s of moving that many bytes again and again, in place or from one half of them to the other: the ceiling of the
  // memory level they fit in.
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
