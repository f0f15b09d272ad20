// rotary bench: verifies each cell, then times it together with a ceiling: moving the same bytes in the same memory.
#include <algorithm>
#include <filesystem>
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
#include "files/text/io.h"
#include "files/text/paths.h"
#include "rotary/gpu.h"
#include "rotary/targets.h"
#include "source.h"

namespace rotary::cli {

namespace {

using bench::Cell;
using bench::Result;

struct Options {
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
  std::string plot;
};

unsigned all_cores() { return std::max(1U, std::thread::hardware_concurrency()); }

// Refuses flags that contradict each other or that the device does not have. Throws UsageError.
void check_flags(const Options& options) {
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
  refuse_if(table && !options.plot.empty(), "--plot draws rotations: no --op table");
}

// The properties of cells that the flags give, and those of the machine.
bench::Words words_of(const Options& options) {
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
std::vector<Cell> cells_of(const Options& options, const bench::Words& words) {
  const bool filter = !options.filter.empty();
  const std::set<std::string> of_machine = {"threads", "target", "device", "table", "cache"};
  const bool shape =
      std::any_of(words.begin(), words.end(), [&](const auto& word) { return !of_machine.contains(word.first); });
  if (options.grid.empty() && !filter && shape) return {bench::with({}, words)};
  const std::string grid = !options.grid.empty() ? options.grid : filter ? "full" : "small";
  const std::vector<Cell> cells = bench::grid(grid, all_cores(), words);
  return filter ? bench::filtered(cells, options.filter) : cells;
}

void check_plot(const std::string& path) {
  if (path.empty()) return;
  if (files::path_of(path).extension() != ".svg") {
    throw Error(Code::FORMAT, "[bench] the plot is SVG: --plot must end in .svg but got '" + path + "'");
  }
  check_output(files::path_of(path));
}

void print(const std::string& line) { std::cout << line << '\n' << std::flush; }

std::vector<Result> run_cells(bench::Machine& machine, const std::vector<Cell>& cells, const Options& options) {
  std::vector<Result> results;
  ProgressLine progress("bench", static_cast<std::int64_t>(cells.size()));
  for (const Cell& cell : cells) {
    progress.done(static_cast<std::int64_t>(results.size()));
    results.push_back(bench::measure(*machine.prepare(cell), {.seconds = options.seconds}));
    progress.clear();
    print(options.json ? with_version(bench::json_of(results.back()).dump()) : bench::row(results.back()));
  }
  return results;
}

void run(const Options& options) {
  check_flags(options);
  const bench::Words words = words_of(options);
  const bool cuda = words.at("device") == "cuda";
  const std::string& target = words.at("target");
  if (!cuda) use_target(target);
  const std::vector<Cell> cells = cells_of(options, words);
  const std::unique_ptr<bench::Machine> machine = cuda ? bench::cuda() : bench::cpu();
  const double free_bytes = machine->free_bytes();
  for (const Cell& cell : cells) bench::check(cell, free_bytes);
  check_plot(options.plot);
  if (!options.json) {
    print("target " + target + "; each result is checked against the reference, then timed\n");
    print(bench::header(cuda));
  }
  const std::vector<Result> results = run_cells(*machine, cells, options);
  if (options.plot.empty()) return;
  files::write_whole("bench", files::path_of(options.plot), svg(bench::ceiling_plot(results)));
  if (!options.json) print("wrote " + printable(options.plot));
}

// ---- options ----

void add_shape_options(Command& command, Options& options) {
  constexpr std::int64_t many = std::int64_t{1} << 40;
  Aliases aliases = pairing_aliases;
  aliases.insert(aliases.end(), layout_aliases.begin(), layout_aliases.end());
  command.section("One shape");
  const auto add_word = [&](const std::string& key, const std::vector<std::string>& words, const char* help) {
    command.option("--" + key, options.words[key], help).one_of(words, aliases).type_name("WORD");
  };
  const auto add_number = [&](const char* key, const char* flag, std::int64_t least, std::int64_t most,
                              const char* help) {
    command.option(flag, options.numbers[key], help).range(least, most).type_name("N");
  };
  add_word("device", {"cpu", "cuda"}, "default cpu");
  add_word("op", {"rotate", "backward", "table", "fused", "append", "norm_append"},
           "rotate: q, then k (default); backward: their gradient; table: cos and sin in storage\n"
           "that is there; fused: q and k in one call; on cuda, of q, k and v in one tensor: append:\n"
           "q and k turn, k and v go to a paged cache; norm_append: q and k are normed before");
  add_word("dtype", {"f32", "bf16", "f16"}, "default bf16; of a table what it is rounded to, f32");
  add_word("pairing", {"half", "interleaved", "interleaved_to_half"}, "default half");
  add_word("layout", {"bthd", "bhtd", "tbhd", "thd"}, "default bthd");
  add_number("batch", "--batch", 1, many, "default 1");
  add_number("tokens", "--tokens", 1, many, "default 64");
  add_number("heads", "--heads", 1, many, "of q, default 32");
  add_number("kv_heads", "--kv-heads", 0, many, "of k, default 8; 0: q only");
  add_number("head_dim", "--head-dim", 1, 65536, "default 128");
  add_number("rotary_dim", "--rotary-dim", 1, 65536, "elements that turn (default: head_dim)");
  const Option in_place = command.flag("--in-place", options.in_place, "the default");
  command.flag("--out-of-place", options.out_of_place, "read here, write there").excludes(in_place);
  add_word("cache", {"same", "f8"}, "on cuda: the cache's type, the heads' (default) or e4m3");
  command.flag("--no-table", options.no_table, "on cuda: each angle is computed where it is needed");
  add_number("threads", "--threads", 0, 1024, "0: all cores (default 1)");
  command.option("--target", options.target, "instruction set, one of 'rotary targets' (default: the best)")
      .type_name("NAME");
  command.section("");
}

constexpr const char* footer =
    "A shape by flags is one cell; without one the small grid is measured. Beside --grid or --filter a flag sets its\n"
    "key in every cell that has it. small: a few telling cells, some 10 seconds. full: dtype x pairing x place x\n"
    "1, 64, 2048, 8192 tokens x bthd, bhtd x head_dim 64, 80, 96, 128, 256 and 96 with 24 rotating x 1 and all\n"
    "threads, and beside them backward, fused and tables: about 1400 cells, some 7 minutes.\n"
    "GB/s counts q and k, read and written; in place what turns only. The ceiling is the time to move the same\n"
    "cache lines in the same memory, in turn with the work: in place the best update in 1, 4 and 16 runs at once,\n"
    "else the best of memcpy and of 1, 2 and 4 runs past the caches. Of a table ns/element is per pair, and GB/s\n"
    "counts what is written.\n"
    "On cuda times are of CUDA events around calls in a row, and replayed from a graph; what is far smaller than the\n"
    "device's cache stays in it, the rest never finds its inputs there. Its grids have 1, 64, 512, 8192 and 32768\n"
    "tokens, and --json has null for threads, a device's name as target, and more keys (docs/cli.md).\n"
    "  rotary bench\n"
    "  rotary bench --dtype f32 --tokens 2048 --out-of-place --threads 2\n"
    "  rotary bench --filter op=rotate,dtype=bf16,tokens=1,tokens=64 --json\n"
    "  rotary bench --grid full --plot ceiling.svg\n"
    "  rotary bench --device cuda --op norm_append --tokens 8192";

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, "bench", "Verify, then time, beside the ceiling of this machine's memory");
  command.option("--grid", options->grid, "many cells: small (default) or full")
      .one_of({"small", "full"})
      .type_name("WORD");
  command
      .option("--filter", options->filter,
              "of the grid, by default the full one, the cells that have these values; a key that\n"
              "is there several times: any of its values. The keys are op to target of --json")
      .type_name("KEY=VALUE,...");
  add_shape_options(command, *options);
  command.option("--seconds", options->seconds, "to time a cell for, about (default 0.2)")
      .range(0.001, 3600.0)
      .type_name("S");
  command.flag("--json", options->json,
               "a line per cell: {\"op\", \"dtype\", \"pairing\", \"layout\", \"batch\", \"tokens\", \"heads\",\n"
               "\"kv_heads\", \"head_dim\", \"rotary_dim\", \"in_place\", \"threads\", \"target\", \"device\",\n"
               "\"ns_per_element\", \"gb_per_s\", \"ceiling_gb_per_s\", \"percent_of_ceiling\", ...}");
  command.option("--plot", options->plot, "percent of ceiling by working set, SVG").type_name("FILE");
  command.footer(footer);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
