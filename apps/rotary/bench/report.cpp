#include "report.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "apps/shared/text.h"

namespace rotary::cli::bench {

using namespace rotary::detail;

namespace {

std::string fixed(double value, int decimals) {
  std::array<char, 64> buffer{};
  const auto [end, status] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, decimals);
  return status == std::errc() ? std::string(buffer.data(), end) : digits(value, 4);
}

const char* name(Traffic traffic) {
  switch (traffic) {
    case Traffic::update:
      return "update";
    case Traffic::copy:
      return "copy";
    case Traffic::stream:
      return "stream";
  }
  return "unknown";
}

std::string pairing_of(const Cell& cell) { return cell.op == Op::table ? "" : rotary::name(cell.pairing); }

const char* place_of(const Cell& cell) { return cell.op == Op::table ? "" : cell.in_place ? "in place" : "out"; }

// On a CUDA device the table and the cache belong to the operation.
std::string op_of(const Cell& cell) {
  return std::string(bench::name(cell.op)) + (cell.f8 ? " f8" : "") + (cell.with_table ? "" : " no-table");
}

constexpr std::size_t op_width = 9;
constexpr std::size_t cuda_op_width = 24;
constexpr std::size_t dtype_width = 6;
constexpr std::size_t pairing_width = 12;
constexpr std::size_t shape_width = 29;
constexpr std::size_t place_width = 10;

}  // namespace

std::string header(bool cuda) {
  const std::string kind = pad("op", cuda ? cuda_op_width : op_width) + pad("dtype", dtype_width) +
                           pad("pairing", pairing_width) + pad("shape", shape_width) + pad("place", place_width);
  const std::string speed = lead("ns/element", 12) + lead("GB/s", 8) + lead("ceiling", 9) + lead("%", 6);
  if (!cuda) return kind + "threads" + lead("time", 13) + speed;
  return kind + lead("time", 13) + lead("replayed", 13) + speed + lead("of copy", 9) + lead("unfused", 9);
}

std::string row(const Result& result) {
  const Cell& cell = result.cell;
  const auto microseconds = [](double seconds) { return lead(fixed(seconds * 1e6, 2), 10) + " us"; };
  const std::string kind = pad(op_of(cell), cell.cuda ? cuda_op_width : op_width) +
                           pad(rotary::name(cell.dtype), dtype_width) + pad(pairing_of(cell) + " ", pairing_width) +
                           pad(shape_words(cell) + " ", shape_width) + pad(place_of(cell), place_width);
  const std::string speed = lead(fixed(result.ns_per_element(), cell.cuda ? 5 : 4), 12) +
                            lead(fixed(result.gb_per_s(), 1), 8) + lead(fixed(result.ceiling_gb_per_s(), 1), 9) +
                            lead(fixed(result.percent_of_ceiling(), 1), 6);
  if (!result.device) return kind + lead(std::to_string(cell.threads), 7) + microseconds(result.seconds) + speed;
  const OnDevice& device = *result.device;
  const auto ratio = [&](double other, double unit, const char* mark) {
    return lead(other > 0 ? fixed(unit * other / result.seconds, unit > 1 ? 1 : 2) + mark : "", 9);
  };
  return kind + microseconds(result.seconds) + microseconds(device.graph_seconds) + speed +
         ratio(device.copy_seconds, 100, " %") + ratio(device.unfused_seconds, 1, " x");
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
  json["ceiling"] = result.device ? result.device->ceiling : name(result.ceiling);
  json["samples"] = result.samples;
  json["verified"] = result.verified;
  if (cell.op == Op::table && !result.device)
    json["cold_ns_per_element"] = result.cold_seconds * 1e9 / static_cast<double>(elements(cell));
  if (result.device) add_device(json, result);
  if (cell.placement != Placement{}) {
    json["padding"] = cell.placement.padding;
    json["offset"] = cell.placement.offset;
    json["aliased"] = cell.placement.aliased;
  }
  return json;
}

void add_cache_guides(Plot& plot, double scale) {
  double left = 1e300, right = 0, low = 1e300, high = 0;
  for (const Line& line : plot.lines) {
    for (const auto& [x, y] : line.points) {
      left = std::min(left, x);
      right = std::max(right, x);
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  for (const Cache& cache : caches()) {
    const double x = static_cast<double>(cache.bytes) * scale;
    if (x <= left || x >= right) continue;
    plot.lines.push_back({cache.name, {{x, low}, {x, high}}, false, false, true});
  }
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
        least = std::min(least, kib);
        most = std::max(most, kib);
      }
      if (!line.points.empty()) plot.lines.push_back(std::move(line));
    }
  }
  if (plot.lines.empty()) return plot;
  plot.lines.push_back({"the ceiling", {{least, 100}, {most, 100}}, false, false, true});
  plot.lines.push_back({"", {{least, 0}, {most, 0}}, false, false, true});
  if (!results.front().cell.cuda) add_cache_guides(plot, 1.0 / 1024);
  return plot;
}

}  // namespace rotary::cli::bench
