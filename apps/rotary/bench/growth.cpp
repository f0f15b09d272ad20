#include "growth.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/shared/text.h"
#include "report.h"

namespace rotary::cli::bench {

namespace {

constexpr std::int64_t max_tokens = 16384;

Cell with(Cell cell, std::int64_t tokens) {
  cell.tokens = tokens;
  return cell;
}

// One token of 1, 2, 4, ... heads, then all heads of 1, 2, 4, ... tokens.
Series regular_series(const Cell& base, unsigned threads) {
  Series series{std::to_string(threads) + (threads == 1 ? " thread" : " threads"), {}, true};
  Cell cell = base;
  cell.threads = threads;
  if (base.op != Op::table) {
    cell.kv_heads = 0;
    for (cell.heads = 1; cell.heads < base.heads; cell.heads *= 2) series.cells.push_back(with(cell, 1));
    cell.heads = base.heads;
    cell.kv_heads = base.kv_heads;
  }
  for (std::int64_t tokens = 1; tokens <= max_tokens; tokens *= 2) series.cells.push_back(with(cell, tokens));
  return series;
}

// Prime numbers of tokens and one head fewer; every second cell has a head_dim of 80.
Series odd_series(const Cell& base) {
  Series series{"odd sizes", {}, false};
  bool narrow = false;
  for (const std::int64_t tokens : {1, 3, 7, 13, 31, 61, 127, 251, 509, 1021, 2039, 4093, 8191}) {
    Cell cell = with(base, tokens);
    if (base.op != Op::table) {
      cell.heads = std::max<std::int64_t>(1, base.heads - 1);
      cell.kv_heads = std::max<std::int64_t>(0, base.kv_heads - 1);
      if (narrow && base.head_dim > 80) cell.head_dim = cell.rotary_dim = 80;
      narrow = !narrow;
    }
    series.cells.push_back(cell);
  }
  return series;
}

template <typename Change>
Series changed_series(const std::string& name, const Cell& base, const Change& change) {
  Series series{name, {}, false};
  for (std::int64_t tokens = 1; tokens <= max_tokens; tokens *= 4) {
    Cell cell = with(base, tokens);
    change(cell);
    series.cells.push_back(cell);
  }
  return series;
}

// The ns/element that the line interpolates at the size of `at`, without `at` itself; 0 outside its range.
double between(const std::vector<const Result*>& line, const Result& at) {
  const Result* below = nullptr;
  const Result* above = nullptr;
  const std::int64_t x = elements(at.cell);
  for (const Result* other : line) {
    if (other == &at) continue;
    const std::int64_t there = elements(other->cell);
    if (there <= x && (below == nullptr || there >= elements(below->cell))) below = other;
    if (there >= x && (above == nullptr || there < elements(above->cell))) above = other;
  }
  if (below == nullptr || above == nullptr) return 0;
  const double low = std::log(static_cast<double>(elements(below->cell)));
  const double high = std::log(static_cast<double>(elements(above->cell)));
  const double part = high > low ? (std::log(static_cast<double>(x)) - low) / (high - low) : 0;
  return below->ns_per_element() * std::pow(above->ns_per_element() / below->ns_per_element(), part);
}

}  // namespace

std::vector<Series> growth(const Cell& base, unsigned threads) {
  std::vector<Series> all = {regular_series(base, 1)};
  if (threads > 1) all.push_back(regular_series(base, threads));
  Cell single = base;
  single.threads = 1;
  all.push_back(odd_series(single));
  if (base.op == Op::table) return all;
  const bool tokens_in_rows = base.layout == "bthd" || base.layout == "thd";
  if (tokens_in_rows) {
    all.push_back(changed_series("heads 2^n bytes apart (bhtd)", single, [](Cell& cell) { cell.layout = "bhtd"; }));
    all.push_back(changed_series("the strides of a packed qkv", single, [](Cell& cell) {
      cell.placement.padding = std::max<std::int64_t>(1, 2 * cell.kv_heads) * cell.head_dim;
    }));
  }
  all.push_back(changed_series("unaligned, from a page's end", single, [tokens_in_rows](Cell& cell) {
    cell.placement.offset = 4096 - 6 * static_cast<std::int64_t>(size_of(cell.dtype));
    if (tokens_in_rows) cell.placement.padding = 5;
  }));
  if (!base.in_place) {
    all.push_back(changed_series("4096 n bytes apart", single, [](Cell& cell) { cell.placement.aliased = true; }));
  }
  return all;
}

double ratio_to_neighbours(const std::vector<Measured>& measured, const Result& result) {
  std::vector<const Result*> line;
  for (const Measured& each : measured) {
    for (const Result& other : each.results) {
      if (each.series.regular && other.cell.threads == result.cell.threads) line.push_back(&other);
    }
  }
  const double expected = between(line, result);
  return expected > 0 ? result.ns_per_element() / expected : 0;
}

Outlier worst(const std::vector<Measured>& measured) {
  Outlier found;
  for (const Measured& each : measured) {
    for (const Result& result : each.results) {
      const double ratio = ratio_to_neighbours(measured, result);
      if (ratio > found.ratio) found = {&result, each.series.name, ratio};
    }
  }
  return found;
}

std::vector<Level> levels(Bench& bench, bool in_place) {
  std::vector<Level> found;
  for (const Cache& cache : caches()) {
    found.push_back({cache.name, bench.level_gb_per_s(cache.bytes / 2, in_place), static_cast<double>(cache.bytes)});
  }
  found.push_back({"memory", bench.level_gb_per_s(4 * caches().back().bytes, in_place), 1e300});
  return found;
}

Plot growth_plot(const std::vector<Measured>& measured, const std::vector<Level>& levels) {
  const bool of_table =
      !measured.empty() && !measured[0].results.empty() && measured[0].results[0].cell.op == Op::table;
  Plot plot{"", of_table ? "pairs" : "elements of q and k", "ns per element", true, true, {}};
  double first = 1e300;
  double last = 0;
  double moved_per_element = 1;
  double held_per_element = 1;
  for (const Measured& each : measured) {
    Line line{each.series.name, {}, false, !each.series.regular};
    for (const Result& result : each.results) {
      const Cell& cell = result.cell;
      const double x = static_cast<double>(elements(cell));
      line.points.emplace_back(x, result.ns_per_element());
      first = std::min(first, x);
      last = std::max(last, x);
      const bool table = cell.op == Op::table;  // bytes() counts what is written; an update also reads it
      moved_per_element = static_cast<double>(bytes(cell)) / x * (table ? 2 : 1);
      held_per_element = moved_per_element * (cell.in_place || table ? 0.5 : 1);
      if (plot.title.empty())
        plot.title = std::string("Time per element against work: ") + name(cell.op) + " " + kind_words(cell);
    }
    plot.lines.push_back(std::move(line));
  }
  double begin = first;
  for (const Level& level : levels) {
    const double end = std::min(last, level.bytes / held_per_element);
    if (end <= begin) continue;
    const double ns = moved_per_element / level.gb_per_s;
    const std::string title = level.name + " " + significant(level.gb_per_s, 3) + " GB/s by 1 thread";
    plot.lines.push_back({title, {{begin, ns}, {end, ns}}, false, false, true});
    begin = end;
  }
  add_cache_guides(plot, 1 / held_per_element);
  return plot;
}

}  // namespace rotary::cli::bench
