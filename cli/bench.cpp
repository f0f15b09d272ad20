// rotary bench: verifies each cell of a fixed grid, then times it beside the plain loop and a copy of the same bytes.
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "bench/cell.h"
#include "commands.h"
#include "rotary/targets.h"
#include "shared/columns.h"
#include "shared/command.h"
#include "shared/text.h"

namespace rotary::cli {

namespace {

using bench::Cell;
using bench::Result;

Columns columns() {
  std::vector<Column> all = {{.width = 5}, {.width = 11}, {.right = true, .width = 6}, {.width = 12}};
  for (const std::size_t width : {12U, 10U, 6U, 7U, 10U}) all.push_back({.right = true, .width = width});
  return Columns(std::move(all));
}

double nanoseconds(const Cell& cell, double seconds) { return 1e9 * seconds / static_cast<double>(elements(cell)); }
double gigabytes(const Cell& cell, double seconds) { return 1e-9 * static_cast<double>(bytes(cell)) / seconds; }

std::string row(const Cell& cell, const Result& result) {
  return columns().line({name(cell.dtype), name(cell.pairing), std::to_string(cell.tokens), place(cell),
                         fixed(1e6 * result.rotary, 2) + " us", fixed(nanoseconds(cell, result.rotary), 4),
                         fixed(gigabytes(cell, result.rotary), 1), fixed(100 * result.copy / result.rotary, 0) + " %",
                         fixed(result.loop / result.rotary, 2) + " x"});
}

nlohmann::ordered_json cell_json(const Cell& cell, const Result& result) {
  return {{"dtype", name(cell.dtype)},
          {"pairing", name(cell.pairing)},
          {"tokens", cell.tokens},
          {"in_place", cell.in_place},
          {"after_write", cell.after_write},
          {"target", std::string(chosen_target())},
          {"ns_per_element", nanoseconds(cell, result.rotary)},
          {"gb_per_s", gigabytes(cell, result.rotary)},
          {"percent_of_copy", 100 * result.copy / result.rotary},
          {"ratio_to_loop", result.loop / result.rotary},
          {"samples", result.samples},
          {"verified", result.verified}};
}

void print(const std::string& line) { std::cout << line << '\n' << std::flush; }

void run() {
  if (!asks_json()) {
    print("target " + std::string(chosen_target()) +
          ", one thread, q of 32 heads of 128 and k of 8; each result is checked against the reference, then timed\n");
    print(
        columns().line({"dtype", "pairing", "tokens", "place", "time", "ns/element", "GB/s", "of copy", "plain loop"}));
  }
  bench::ReadyCell::Memory memory;
  for (const Cell& cell : bench::grid()) {
    const Result result = bench::measure(bench::ReadyCell(cell, memory), 0.1);
    print(asks_json() ? versioned(cell_json(cell, result)) : row(cell, result));
  }
}

}  // namespace

void add_bench(Command& command) {
  command.runs([] { run(); });
}

}  // namespace rotary::cli
