// The results of rotary bench as text and JSON.
#include <algorithm>
#include <utility>

#include "apps/shared/columns.h"
#include "apps/shared/text.h"
#include "bench.h"

namespace rotary::cli::bench {

using namespace rotary::detail;

namespace {

std::string microseconds(double seconds) { return fixed(seconds * 1e6, 2) + " us"; }

// On a CUDA device the name includes f8 for the cache and no-table.
std::string op_of(const Cell& cell) {
  return std::string(bench::name(cell.op)) + (cell.f8 ? " f8" : "") + (cell.with_table ? "" : " no-table");
}

// A column of the text: its width on the CPU and on a CUDA device, 0 where it is not shown.
struct Shown {
  const char* name;
  std::size_t width, cuda_width;
  std::string (*text)(const Result&);
};

constexpr std::size_t words_shown = 5;  // the others are numbers, aligned to the right
constexpr Shown shown[] = {
    {"op", 8, 23, [](const Result& r) { return op_of(r.cell); }},
    {"dtype", 5, 5, [](const Result& r) { return std::string(rotary::name(r.cell.dtype)); }},
    {"pairing", 11, 11,
     [](const Result& r) { return std::string(r.cell.op == Op::table ? "" : rotary::name(r.cell.pairing)); }},
    {"shape", 28, 28, [](const Result& r) { return shape_words(r.cell); }},
    {"place", 9, 9,
     [](const Result& r) {
       return std::string(r.cell.op == Op::table ? "" : r.cell.in_place ? "in place" : "out");
     }},
    {"threads", 7, 0, [](const Result& r) { return std::to_string(r.cell.threads); }},
    {"time", 12, 12, [](const Result& r) { return microseconds(r.seconds); }},
    {"replayed", 0, 12, [](const Result& r) { return microseconds(r.device->graph_seconds); }},
    {"ns/element", 11, 11, [](const Result& r) { return fixed(r.ns_per_element(), r.cell.cuda ? 5 : 4); }},
    {"GB/s", 7, 7, [](const Result& r) { return fixed(r.gb_per_s(), 1); }},
    {"ceiling", 8, 8, [](const Result& r) { return fixed(r.ceiling_gb_per_s(), 1); }},
    {"%", 5, 5, [](const Result& r) { return fixed(r.percent_of_ceiling(), 1); }},
    {"of copy", 0, 8,
     [](const Result& r) {
       const double copy = r.device->copy_seconds;
       return copy > 0 ? fixed(100 * copy / r.seconds, 1) + " %" : "";
     }},
    {"unfused", 0, 8, [](const Result& r) {
       const double unfused = r.device->unfused_seconds;
       return unfused > 0 ? fixed(unfused / r.seconds, 2) + " x" : "";
     }}};

// A line of what `text` makes of each column.
template <class Text>
std::string line_of(bool cuda, const Text& text) {
  std::vector<Column> columns;
  Cells cells;
  for (const Shown& each : shown) {
    const std::size_t width = cuda ? each.cuda_width : each.width;
    if (width == 0) continue;
    columns.push_back({.right = cells.size() >= words_shown, .width = width});
    cells.push_back(text(each));
  }
  return Columns(std::move(columns), 1).line(cells);
}

}  // namespace

double Result::ns_per_element() const { return seconds * 1e9 / static_cast<double>(elements(cell)); }
double Result::gb_per_s() const { return static_cast<double>(bytes(cell)) * 1e-9 / seconds; }
double Result::ceiling_gb_per_s() const { return static_cast<double>(bytes(cell)) * 1e-9 / ceiling_seconds; }
double Result::percent_of_ceiling() const { return 100 * ceiling_seconds / seconds; }

std::string header(bool cuda) {
  return line_of(cuda, [](const Shown& column) { return column.name; });
}

std::string row(const Result& result) {
  return line_of(result.device.has_value(), [&](const Shown& column) { return column.text(result); });
}

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
  if (!result.device) return json;
  const OnDevice& device = *result.device;
  json["graph_microseconds"] = device.graph_seconds * 1e6;
  if (device.copy_seconds > 0) {
    json["copy_gb_per_s"] = static_cast<double>(bytes(cell)) * 1e-9 / device.copy_seconds;
    json["percent_of_copy"] = 100 * device.copy_seconds / result.seconds;
  }
  json["launches"] = device.launches;
  json["sets"] = device.sets;
  if (device.unfused_seconds > 0) {
    json["unfused_microseconds"] = device.unfused_seconds * 1e6;
    json["unfused_graph_microseconds"] = device.unfused_graph_seconds * 1e6;
    json["ratio_to_unfused"] = device.unfused_seconds / result.seconds;
  }
  return json;
}

}  // namespace rotary::cli::bench
