// The results of rotary bench as text, JSON and a plot.
#include <algorithm>
#include <utility>

#include "apps/shared/columns.h"
#include "apps/shared/text.h"
#include "measure.h"
#include "runtime/last_cache.h"

namespace rotary::cli::bench {

using namespace rotary::detail;

namespace {

std::string pairing_of(const Cell& cell) { return cell.op == Op::table ? "" : rotary::name(cell.pairing); }

const char* place_of(const Cell& cell) { return cell.op == Op::table ? "" : cell.in_place ? "in place" : "out"; }

// On a CUDA device the name includes f8 for the cache and no-table.
std::string op_of(const Cell& cell) {
  return std::string(bench::name(cell.op)) + (cell.f8 ? " f8" : "") + (cell.with_table ? "" : " no-table");
}

Columns columns_of(bool cuda) {
  std::vector<Column> columns = {{.width = cuda ? 23U : 8U}, {.width = 5}, {.width = 11}, {.width = 28}, {.width = 9}};
  const std::vector<std::size_t> numbers =
      cuda ? std::vector<std::size_t>{12, 12, 11, 7, 8, 5, 8, 8} : std::vector<std::size_t>{7, 12, 11, 7, 8, 5};
  for (const std::size_t width : numbers) columns.push_back({.right = true, .width = width});
  return Columns(std::move(columns), 1);
}

}  // namespace

std::string header(bool cuda) {
  if (!cuda) {
    return columns_of(cuda).line(
        {"op", "dtype", "pairing", "shape", "place", "threads", "time", "ns/element", "GB/s", "ceiling", "%"});
  }
  return columns_of(cuda).line({"op", "dtype", "pairing", "shape", "place", "time", "replayed", "ns/element", "GB/s",
                                "ceiling", "%", "of copy", "unfused"});
}

std::string row(const Result& result) {
  const Cell& cell = result.cell;
  const auto microseconds = [](double seconds) { return fixed(seconds * 1e6, 2) + " us"; };
  Cells cells = {op_of(cell), rotary::name(cell.dtype), pairing_of(cell), shape_words(cell), place_of(cell)};
  if (!result.device) cells.push_back(std::to_string(cell.threads));
  cells.push_back(microseconds(result.seconds));
  if (result.device) cells.push_back(microseconds(result.device->graph_seconds));
  cells.insert(cells.end(), {fixed(result.ns_per_element(), cell.cuda ? 5 : 4), fixed(result.gb_per_s(), 1),
                             fixed(result.ceiling_gb_per_s(), 1), fixed(result.percent_of_ceiling(), 1)});
  if (result.device) {
    const double copy = result.device->copy_seconds, unfused = result.device->unfused_seconds;
    cells.push_back(copy > 0 ? fixed(100 * copy / result.seconds, 1) + " %" : "");
    cells.push_back(unfused > 0 ? fixed(unfused / result.seconds, 2) + " x" : "");
  }
  return columns_of(result.device.has_value()).line(cells);
}

namespace {

void add_device(nlohmann::ordered_json& json, const Result& result) {
  const OnDevice& device = *result.device;
  json["graph_microseconds"] = device.graph_seconds * 1e6;
  if (device.copy_seconds > 0) {
    json["copy_gb_per_s"] = static_cast<double>(bytes(result.cell)) * 1e-9 / device.copy_seconds;
    json["percent_of_copy"] = 100 * device.copy_seconds / result.seconds;
  }
  json["launches"] = device.launches;
  json["sets"] = device.sets;
  if (device.unfused_seconds > 0) {
    json["unfused_microseconds"] = device.unfused_seconds * 1e6;
    json["unfused_graph_microseconds"] = device.unfused_graph_seconds * 1e6;
    json["ratio_to_unfused"] = device.unfused_seconds / result.seconds;
  }
}

}  // namespace

nlohmann::ordered_json json_of(const Result& result) {
  const Cell& cell = result.cell;
  nlohmann::ordered_json json = describe(cell);
  json["ns_per_element"] = result.ns_per_element();
  json["gb_per_s"] = result.gb_per_s();
  json["ceiling_gb_per_s"] = result.ceiling_gb_per_s();
  json["percent_of_ceiling"] = result.percent_of_ceiling();
  json["microseconds"] = result.seconds * 1e6;
  json["elements"] = elements(cell);
  json["bytes"] = bytes(cell);
  json["ceiling"] = result.ceiling;
  if (result.move) {
    json["ceiling_runs"] = result.move->runs;
    json["ceiling_ahead"] = result.move->ahead;
  }
  json["samples"] = result.samples;
  json["verified"] = result.verified;
  if (result.cold_seconds)
    json["cold_ns_per_element"] = *result.cold_seconds * 1e9 / static_cast<double>(elements(cell));
  if (result.device) add_device(json, result);
  return json;
}

Plot ceiling_plot(const std::vector<Result>& results) {
  Plot plot{"Percent of the memory ceiling", "working set, KiB", "% of ceiling", true, false, {}};
  double least = 1e300;
  double most = 0;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool in_place : {true, false}) {
      Line line{std::string(rotary::name(dtype)) + (in_place ? " in place" : " out of place"), {}, false, true};
      for (const Result& result : results) {
        const Cell& cell = result.cell;
        if (cell.op == Op::table || cell.dtype != dtype || cell.in_place != in_place) continue;
        const double kib = static_cast<double>(line_bytes(cell)) * (in_place ? 1 : 2) / 1024;
        line.points.emplace_back(kib, result.percent_of_ceiling());
        line.names.push_back(op_of(cell) + " " + rotary::name(cell.pairing) + " " + shape_words(cell));
        least = std::min(least, kib);
        most = std::max(most, kib);
      }
      if (!line.points.empty()) plot.lines.push_back(std::move(line));
    }
  }
  if (plot.lines.empty()) return plot;
  plot.lines.push_back({"the ceiling", {{least, 100}, {most, 100}}, false, false, true});
  plot.lines.push_back({"", {{least, 0}, {most, 0}}, false, false, true});
  if (results.front().cell.cuda) return plot;
  for (std::size_t level = 0; level < data_caches().size(); ++level) {
    const double kib = static_cast<double>(data_caches()[level]) / 1024;
    if (kib <= least || kib >= most) continue;
    plot.lines.push_back({"L" + std::to_string(level + 1), {{kib, 0}, {kib, 100}}, false, false, true});
  }
  return plot;
}

}  // namespace rotary::cli::bench
