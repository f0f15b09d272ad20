// What rotary bench and the programs of bench/ measure. A cell says what is measured; on its machine, the CPU or a CUDA
// device, it becomes calls on tensors, whose results are compared with the reference and which are then timed in turn
// with the ceiling, moving the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/ceiling.h"
#include "measure/medians.h"
#include "rotary/rotary.h"

namespace rotary::cli::bench {

// ---- cells -----------------------------------------------------------------------------------------

enum class Op : std::uint8_t {
  rotate,       // q, then k
  backward,     // the gradient of rotate
  table,        // Table::assign into existing storage
  fused,        // rotate_qk
  append,       // gpu::rotate_append, of q, k and v in one tensor
  norm_append,  // gpu::norm_rotate_append
};
const char* name(Op) noexcept;  // "rotate", "backward", "table", "fused", "append", "norm_append"
bool appends(Op) noexcept;      // k and v go to a cache

struct Cell {
  Op op = Op::rotate;
  DType dtype = DType::bf16;  // of a table: the type its values are rounded to
  Pairing pairing = Pairing::half;
  std::string layout = "bthd";
  std::int64_t batch = 1;
  std::int64_t tokens = 64;
  std::int64_t heads = 32;    // of q
  std::int64_t kv_heads = 8;  // of k; 0: q only
  int head_dim = 128;
  int rotary_dim = 128;
  bool in_place = true;
  unsigned threads = 1;
  std::string target = {};
  bool cuda = false;       // on a CUDA device; target is its name, threads has no meaning
  bool with_table = true;  // otherwise the kernel computes each angle itself
  bool f8 = false;         // the cache holds f8 e4m3, otherwise the type of the heads
};

// Of q (heads = cell.heads) or of k (heads = cell.kv_heads).
Layout layout_of(const Cell&, std::int64_t heads);
Rope rope_of(const Cell&);
Rounding rounding_of(const Cell&);  // of a table; f32 for other cells
// 1, 2, 3, ..., one per token. Position 0 is left out: it rotates by nothing, unlike any decoding step.
std::vector<std::int64_t> first_positions(const Cell&);
std::string kind_words(const Cell&);   // "bf16 half in place"; of a table "f32"
std::string shape_words(const Cell&);  // "bthd [1, 64, 32+8, 128/64]": 64 rotate; of a table "[64, 32]"

// What is counted of q and k: in place the rotated elements, out of place all of them. Of k and v that go to a cache:
// all. Of a table: its pairs.
std::int64_t elements(const Cell&);
// Bytes of those elements, read and written; of a table those of cos and sin, written.
std::int64_t bytes(const Cell&);
// Bytes of the 64-byte cache lines that hold those elements, each counted once; of a table those of cos and sin.
std::int64_t line_bytes(const Cell&);
// Bytes of that many heads of every token.
std::int64_t heads_bytes(const Cell&, std::int64_t heads);
// Throws what frequencies() throws for the rope, SHAPE for a batch with layout thd, MEMORY if measuring the cell
// allocates more than free_bytes.
void check(const Cell&, double free_bytes);

// ---- properties: the keys that describe a cell, in JSON, flags, grids and filters ------------------

using Words = std::map<std::string, std::string>;  // values by key, as in {"dtype": "bf16", "tokens": "64"}

// The cell with these values of the properties that it has. head_dim sets rotary_dim too where that is not given; a
// cell that becomes a table is f32 unless dtype is given. The words are right; of other keys there are none.
Cell with(Cell, const Words&);
// All properties, in output order; null for one that the cell does not have.
nlohmann::ordered_json describe(const Cell&);
// Every combination of the values in "KEY=VALUE,VALUE KEY=VALUE ...", the first key's slowest; words prevail over them.
// No cell is there twice.
std::vector<Cell> combined(const std::vector<std::string>& rows, const Words& words);
// name is "small" or "full"; threads is the number of all cores. A device has its own grids.
std::vector<Cell> grid(const std::string& name, unsigned threads, const Words& words);
// The cells whose describe() has the values of "KEY=VALUE,...": of a key that is there several times, one of its
// values. Throws UsageError if there is none.
std::vector<Cell> filtered(const std::vector<Cell>&, const std::string& filter);

// ---- memory ----------------------------------------------------------------------------------------

constexpr std::int64_t cache_line = 64;  // bytes
constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

// One block of memory, aligned to 2 MiB; in huge pages if they are wanted and the system grants them.
class Arena {
 public:
  explicit Arena(bool huge_pages = true) : huge_pages_(huge_pages) {}
  // A block of at least `bytes` bytes with every page touched. Growing discards the contents. Throws MEMORY.
  std::byte* reserve(std::size_t bytes);

 private:
  const bool huge_pages_;
  std::unique_ptr<void, std::function<void(void*)>> mapping_;
  std::byte* begin_ = nullptr;
  std::size_t size_ = 0;
};

// 95 % of the bytes that can be allocated without swapping, according to the kernel and the control group.
double free_memory();

constexpr int page_size = 16;                     // tokens of a page of a cell's cache
constexpr float k_scale = 0.5F, v_scale = 0.25F;  // of a cache of f8
std::int64_t pages_of(const Cell&);

// The tensors of a cell in one block of memory: the inputs, then the results. q, k and v of an appending cell are parts
// of one tensor, and its k and v are written to a cache.
struct Tensors {
  // begin is aligned to 64 bytes and holds all_bytes; null: only the sizes are asked for.
  explicit Tensors(const Cell&, std::byte* begin = nullptr);

  Heads q, k, v, qkv;            // read, in place also written
  Heads q_out, k_out;            // written, in place the same as q and k
  std::byte* k_cache = nullptr;  // of an appending cell: pages of page_size tokens
  std::byte* v_cache = nullptr;
  std::byte* in = nullptr;  // the inputs
  std::size_t in_bytes = 0;
  std::byte* out = nullptr;  // the results; in place the inputs on the CPU, and spare memory on a device
  std::size_t out_bytes = 0;
  std::size_t all_bytes = 0;
  std::size_t moved = 0;  // bytes from in to out that the ceiling moves, a multiple of 64
};

// Numbers of magnitude 0.25 to 2 and both signs, the same each time, to be repeated.
std::vector<std::byte> fill_pattern(DType);

// ---- measuring -------------------------------------------------------------------------------------

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

  virtual Table table() const = 0;  // its rows, of a cell with a table
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

class Machine {
 public:
  virtual ~Machine() = default;
  virtual double free_bytes() const = 0;
  // Uses the memory of the cell before. Throws what the operations throw.
  virtual std::unique_ptr<ReadyCell> prepare(const Cell&) = 0;
};
std::unique_ptr<Machine> cpu(bool huge_pages = true);  // leaves a cell's target in use
std::unique_ptr<Machine> cuda();  // throws CUDA if rotary was built without it or no device is found

// Fills the inputs of a set, and its results with a pattern that cannot be one.
void fill(const ReadyCell&, const Tensors&);

// Fills the first set, runs its call once and compares the results of every token, or of the first, middle and last
// ones if there are many elements:
//   with reference::rotate and append bit for bit; an appending cell also with its separate operations;
//   q, and k unless its cache is f8, of a cell without a table or with a norm: with the norm and the rotation in
//   double, within 1.1e-7 of cos and sin, or within the roundings of the norm;
//   a table: each value is the correctly rounded one, in all rows or, if there are many, every n-th and the last.
// Throws CHECK. Returns the number of elements, or pairs, that were compared.
std::int64_t verify(const ReadyCell&);
std::int64_t verify_rows(const Cell&, const Frequencies&, const Table&);  // of positions 1, 2, 3, ...

// Verifies it, fills all sets, and times it. Throws CHECK.
Result measure(ReadyCell&, const Pace&);

// Median seconds of one run of each call, sampled in turn. warm_up: one unmeasured run before each sample, so that the
// caches are as the call leaves them.
detail::Medians median_seconds(const std::vector<Call>&, const Pace&, bool warm_up);

// ---- what is shown ---------------------------------------------------------------------------------

std::string header(bool cuda = false);  // the column names above the rows
std::string row(const Result&);         // one line, aligned with the header
nlohmann::ordered_json json_of(const Result&);

}  // namespace rotary::cli::bench
