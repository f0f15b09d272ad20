// rotary bench: verifies each cell, then times it together with a ceiling: moving the same bytes in the same memory.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "apps/rotary/bench/bench.h"
#include "apps/shared/command.h"
#include "apps/shared/progress_line.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "rotary/gpu.h"
#include "rotary/targets.h"
#include "source.h"

namespace rotary::cli {

namespace {

using bench::Cell;
using bench::Result;

struct BenchOptions {
  std::string grid;
  std::string filter;
  bench::Words words = {{"device", "cpu"}};  // of the flags that take a word, by property; "": not given
  std::map<std::string, std::optional<std::int64_t>> numbers;  // of those that take a number
  std::optional<std::string> target;
  bool no_table = false;
  bool in_place = false;
  bool out_of_place = false;
  double seconds = 0.2;
  bool json = false;
};

unsigned all_cores() { return std::max(1U, std::thread::hardware_concurrency()); }

// Refuses flags that contradict each other or that the device does not have. Throws UsageError.
void check_flags(const BenchOptions& options) {
  const auto word = [&options](const char* key) { return options.words.at(key); };
  const auto given = [&options](const char* key) { return options.numbers.at(key).has_value(); };
  const std::string op = word("op");
  const bool cached = !word("cache").empty();
  const bool appending = op == "append" || op == "norm_append", table = op == "table";
  const auto refuse_if = [](bool wrong, const char* sentence) {
    if (wrong) throw UsageError(sentence);
  };
  if (word("device") == "cpu") {
    refuse_if(appending || options.no_table || cached,
              "--op append, --op norm_append, --no-table and --cache are for --device cuda");
  } else {
    refuse_if(given("threads") || options.target, "--device cuda has no --threads and no --target");
    refuse_if(cached && !op.empty() && !appending, "--cache is for --op append and --op norm_append");
    refuse_if(appending && options.numbers.at("kv_heads") == 0,
              "--op append and --op norm_append need a k: no --kv-heads 0");
    refuse_if(options.in_place && op == "norm_append" && word("pairing") == "interleaved_to_half",
              "--op norm_append turns interleaved_to_half out of place only: no --in-place");
    refuse_if(options.no_table && table, "--op table makes a table: no --no-table");
  }
  const bool of_heads = !word("pairing").empty() || !word("layout").empty() || given("batch") || given("heads") ||
                        given("kv_heads") || options.in_place || options.out_of_place;
  refuse_if(table && of_heads,
            "--op table has no heads: no --pairing, --layout, --batch, --heads, --kv-heads, --in-place");
}

// The properties of cells that the flags give, and those of the machine.
bench::Words words_of(const BenchOptions& options) {
  bench::Words words = options.words;
  std::erase_if(words, [](const auto& word) { return word.second.empty(); });
  for (const auto& [key, number] : options.numbers) {
    if (number) words[key] = std::to_string(key == "threads" && number == 0 ? all_cores() : *number);
  }
  if (options.in_place || options.out_of_place) words["in_place"] = options.in_place ? "true" : "false";
  if (options.no_table) words["table"] = "false";
  if (words.at("device") == "cuda") {
    words["target"] = gpu::built() && gpu::devices() > 0 ? gpu::device_name() : "";
  } else {
    words["target"] = options.target.value_or(std::string(chosen_target()));
  }
  return words;
}

// The one shape that the flags describe, if they do and neither --grid nor --filter is given; otherwise a grid.
std::vector<Cell> cells_of(const BenchOptions& options, const bench::Words& words) {
  const bool filter = !options.filter.empty();
  const std::set<std::string> of_machine = {"threads", "target", "device", "table", "cache"};
  const bool shape =
      std::any_of(words.begin(), words.end(), [&](const auto& word) { return !of_machine.contains(word.first); });
  if (options.grid.empty() && !filter && shape) return {bench::with({}, words)};
  const std::string grid = !options.grid.empty() ? options.grid : filter ? "full" : "small";
  const std::vector<Cell> cells = bench::grid(grid, all_cores(), words);
  return filter ? bench::filtered(cells, options.filter) : cells;
}

void print(const std::string& line) { std::cout << line << '\n' << std::flush; }

void run_cells(bench::Machine& machine, const std::vector<Cell>& cells, const BenchOptions& options) {
  ProgressLine progress("bench", static_cast<std::int64_t>(cells.size()));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    progress.done(static_cast<std::int64_t>(i));
    const Result result = bench::measure(*machine.prepare(cells[i]), {.seconds = options.seconds});
    progress.clear();
    print(options.json ? with_version(bench::json_of(result).dump()) : bench::row(result));
  }
}

void run(const BenchOptions& options) {
  check_flags(options);
  const bench::Words words = words_of(options);
  const bool cuda = words.at("device") == "cuda";
  const std::string& target = words.at("target");
  if (!cuda) use_target(target);
  const std::vector<Cell> cells = cells_of(options, words);
  const std::unique_ptr<bench::Machine> machine = cuda ? bench::cuda() : bench::cpu();
  const double free_bytes = machine->free_bytes();
  for (const Cell& cell : cells) bench::check(cell, free_bytes);
  if (!options.json) {
    print("target " + target + "; each result is checked against the reference, then timed\n");
    print(bench::header(cuda));
  }
  run_cells(*machine, cells, options);
}

// ---- options ----

void add_shape_options(Command& command, BenchOptions& options) {
  for (const char* key : {"device", "op", "dtype", "pairing", "layout"})
    command.option(std::string("--") + key, options.words[key]);
  for (const auto& [key, name] : {std::pair("batch", "--batch"),
                                  {"tokens", "--tokens"},
                                  {"heads", "--heads"},
                                  {"kv_heads", "--kv-heads"},
                                  {"head_dim", "--head-dim"},
                                  {"rotary_dim", "--rotary-dim"}})
    command.option(name, options.numbers[key]);
  command.option("--in-place", options.in_place);
  command.option("--out-of-place", options.out_of_place);
  command.option("--cache", options.words["cache"]);
  command.option("--no-table", options.no_table);
  command.option("--threads", options.numbers["threads"]);
  command.option("--target", options.target);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  Command command(app, "bench");
  command.option("--grid", options->grid);
  command.option("--filter", options->filter);
  add_shape_options(command, *options);
  command.option("--seconds", options->seconds);
  command.option("--json", options->json);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
