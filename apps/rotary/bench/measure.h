// Measures cells and shows the results. A cell is made ready on its machine, the CPU or a CUDA device, compared with
// the reference, and timed in turn with the ceiling, moving the same bytes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/shared/plot/plot.h"
#include "cell.h"
#include "measure/ceiling.h"
#include "measure/medians.h"
#include "memory.h"

namespace rotary::cli::bench {

// Further measurements on a CUDA device.
struct OnDevice {
  double graph_seconds = 0;    // of one run, replayed from a graph of many runs
  double copy_seconds = 0;     // of the CUDA runtime's copy of the same bytes, also for cells in place; 0 for a table
  double unfused_seconds = 0;  // of the separate operations that an appending cell fuses
  double unfused_graph_seconds = 0;  // likewise, replayed
  int launches = 1;                  // kernel launches in one run
  int sets = 1;                      // sets of memory that are used in turn
};

struct Result {
  Cell cell;
  double seconds = 0;          // of one run of the cell's call
  double ceiling_seconds = 0;  // of moving the same bytes
  std::string ceiling = {};    // the fastest way: update, copy, stream; on CUDA update, copy, kernel (ours), fill
  std::optional<detail::Move> move = {};    // that way, but for a copy and on CUDA
  std::optional<double> cold_seconds = {};  // of a table on the CPU: constructed in new storage
  std::vector<double> beside_seconds = {};  // of the peers' calls
  int samples = 0;                          // the times above are medians of this many
  std::int64_t verified = 0;                // elements or pairs that were compared with the reference and equal
  std::optional<OnDevice> device = {};

  double ns_per_element() const;
  double gb_per_s() const;
  double ceiling_gb_per_s() const;
  double percent_of_ceiling() const;
};

// ---- what is shown ----

std::string header(bool cuda = false);  // the column names above the rows
std::string row(const Result&);         // one line, aligned with the header
nlohmann::ordered_json json_of(const Result&);
// Percent of the ceiling by working set, one dot per result; tables are left out.
Plot ceiling_plot(const std::vector<Result>&);

// ---- measuring ----

using Call = std::function<void()>;

// How long and how often calls are timed.
struct Pace {
  double seconds = 0.2;   // of all together; more if the least number of samples takes longer
  int rounds = 0;         // instead: samples of each
  double sample = 40e-6;  // seconds of a sample at least
  double rest = 0;        // seconds of sleep after each round: until the threads of the last call sleep too
};

// A cell that is ready to run.
class ReadyCell {
 public:
  explicit ReadyCell(const Cell& c) : cell(c), turns(frequencies(rope_of(c))) {}
  virtual ~ReadyCell() = default;
  ReadyCell(const ReadyCell&) = delete;
  ReadyCell& operator=(const ReadyCell&) = delete;

  virtual Table table() const = 0;  // its rows; of a cell without a table those of the same positions
  // Into the memory of its tensors; from there, after all calls so far.
  virtual void write(void* to, const void* from, std::size_t bytes) const = 0;
  virtual void read(void* to, const void* from, std::size_t bytes) const = 0;
  virtual void time(const Pace&, Result&) const = 0;

  const Cell cell;
  const Frequencies turns;
  std::vector<Tensors> sets;        // of equal values; a table has none
  std::vector<Call> calls;          // of each set: the cell's work
  std::vector<Call> parts;          // of each set of an appending cell: the separate operations that it fuses
  std::vector<Call> beside;         // on the CPU: peers' calls, timed in turn with the cell's
  std::vector<std::int64_t> slots;  // of an appending cell: of each token
  const void* q_weight = nullptr;   // of the norm of q
};

// Fills the inputs of a set, and its results with a pattern that cannot be one.
void fill(const ReadyCell&, const Tensors&);

class Machine {
 public:
  virtual ~Machine() = default;
  virtual double free_bytes() const = 0;
  // Uses the memory of the cell before. Throws what the operations throw.
  virtual std::unique_ptr<ReadyCell> prepare(const Cell&) = 0;
};
std::unique_ptr<Machine> cpu(bool huge_pages = true);  // leaves a cell's target in use
std::unique_ptr<Machine> cuda();  // throws CUDA if rotary was built without it or no device is found

// Fills the first set, runs its call once and compares the results of every token, or of the first, middle and last
// ones if there are many elements:
//   with reference::rotate bit for bit; without a table (Cell::with_table) within 1.1e-7 of each angle's cos and sin;
//   the cache of an appending cell also with its separate operations, bit for bit;
//   norm_append with its separate operations, bit for bit, and q with double arithmetic within rounding errors;
//   a table with long double arithmetic: all rows, or if there are many every n-th and the last.
// Throws CHECK. Returns the number of elements, or pairs, that were compared.
std::int64_t verify(const ReadyCell&);

// The last of these, for rows of positions 1, 2, 3, ...: each value must be the correctly rounded one.
std::int64_t verify_rows(const Cell&, const Frequencies&, const Table&);

// Verifies it, fills all sets, and times it. Throws CHECK.
Result measure(ReadyCell&, const Pace&);

// Median seconds of one run of each call, sampled in turn. warm_up: one unmeasured run before each sample, so that the
// caches are as the call leaves them.
detail::Medians median_seconds(const std::vector<Call>&, const Pace&, bool warm_up);

}  // namespace rotary::cli::bench
