// rotary plot: pictures of ropes and of what comes of them.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/rotary/plot/request.h"
#include "apps/shared/command.h"
#include "apps/shared/displayable.h"
#include "apps/shared/plot/figure.h"
#include "apps/shared/tensors.h"
#include "apps/shared/terminal.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "files/text/paths.h"
#include "runs.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

struct PlotOptions {
  PlotRequest request;
  std::string title;
  std::string output;
  bool terminal = false;
  bool json = false;
};

// ---- what is asked for ----

Figure losses_plot(const PlotRequest& request) {
  const std::vector<Run> runs = read_runs("plot", request.configs);
  if (std::none_of(runs.begin(), runs.end(), [](const Run& run) { return run.value().has_value(); })) {
    fail(Code::NUMBER, "plot", "a loss to draw must be a finite number but got none in ",
         printable(runs.front().directory), "/loss.jsonl");
  }
  for (const Run& run : runs) {
    if (run.log.not_finite_from)
      std::cerr << "warning: run " << printable(run.name) << ": not finite from step " << *run.log.not_finite_from
                << " on\n";
  }
  return plot_of(runs);
}

const std::vector<std::pair<std::string, Figure (*)(const PlotRequest&)>> kinds = {
    {"wavelengths", wavelengths_plot}, {"stretch", stretch_plot},   {"table", table_map}, {"decay", decay_plot},
    {"patches", patches_plot},         {"accuracy", accuracy_plot}, {"loss", losses_plot}};

// PlotOptions that belong to one kind.
void check_usage(const PlotOptions& options) {
  const PlotRequest& request = options.request;
  const auto only = [&](bool given, const char* option, std::string_view of) {
    if (given && of.find(request.kind) == std::string_view::npos)
      throw UsageError(std::string(option) + " does not go with plot " + request.kind);
  };
  only(request.pairs.has_value(), "--pairs", "table");
  only(request.positions.has_value(), "--positions", "table accuracy patches");
  only(request.cos, "--cos", "table");
  only(request.sin, "--sin", "table");
  only(!request.q.empty(), "--queries", "decay patches");
  only(!request.k.empty(), "--keys", "decay patches");
  only(!request.layout.empty(), "--layout", "decay patches");
  only(request.step.has_value(), "--step", "patches");
  only(!request.scalings.empty(), "--scalings", "wavelengths stretch table decay patches accuracy");
  if (request.q.empty() != request.k.empty())
    throw UsageError("--queries and --keys go together: give both, or neither");
  if (request.kind == "loss" && request.configs.empty()) throw UsageError("plot loss needs the folders of runs");
  if (is_dash(options.output) && (options.terminal || options.json))
    throw UsageError("--output - and the text of --terminal or --json would both be standard output");
  if (options.terminal && options.json)
    throw UsageError("--terminal and --json are two forms of text: give one of them");
}

// ---- as text ----

// COLUMNS where it is set, else the terminal's, within bounds; 72 where neither is known.
int text_width_in_columns() {
  return static_cast<int>(std::clamp<std::size_t>(terminal_columns().value_or(72), 40, 160));
}

// The keys are a contract.
Json json_of(const Figure& figure) {
  if (const Grid& grid = figure.grid; !grid.x.empty()) {
    Json rows = Json::array();
    for (auto row = grid.values.begin(); row != grid.values.end();) {
      const auto end = row + static_cast<std::ptrdiff_t>(grid.x.size());
      rows.push_back(std::vector<double>(row, end));
      row = end;
    }
    const bool patches = grid.turns.empty();
    return {{"title", figure.title},
            {"value", grid.value},
            {"limit", grid.limit},
            {patches ? "columns" : "positions", grid.x},
            {patches ? "rows" : "pairs", grid.y},
            {"values", std::move(rows)}};
  }
  Json lines = Json::array(), guides = Json::array(), bands = Json::array();
  for (const Line& line : figure.lines) {
    Json points = Json::array();
    for (std::size_t i = 0; i < line.points.size(); ++i) {
      const auto& [x, y] = line.points[i];
      if (!line.lower.empty()) {
        points.push_back({x, line.lower[i], y});
      } else if (std::isfinite(y)) {
        points.push_back({x, y});  // as drawn
      }
    }
    Json entry = {{"name", line.name}, {"points", std::move(points)}};
    if (!line.lost.empty()) entry["not_finite"] = line.lost;
    (!line.lower.empty() ? bands : line.guide ? guides : lines).push_back(std::move(entry));
  }
  return {{"title", figure.title},     {"x", figure.x_label},         {"y", figure.y_label},
          {"lines", std::move(lines)}, {"guides", std::move(guides)}, {"bands", std::move(bands)}};
}

// ---- a picture as a file: SVG, or PNG by rsvg-convert ----

std::string ending_of(const std::string& path) {
  return files::lower(files::path_text(files::path_of(path).extension()));
}

// Before the work: throws FORMAT unless the name is "-" or ends in .svg or .png, FILE where the folder is missing or
// PNG is asked for and rsvg-convert is not there.
void check_picture(const std::string& path) {
  if (is_dash(files::path_of(path))) return;
  if (ending_of(path) != ".png" && ending_of(path) != ".svg") {
    fail(Code::FORMAT, "plot", "a picture is SVG or PNG: --output must end in .svg or .png but got '",
         files::printable(path), "'");
  }
  check_output(files::path_of(path));
  if (ending_of(path) == ".png" && !output_of("rsvg-convert", {"--version"})) {
    fail(Code::FILE, "plot",
         "a PNG needs the program rsvg-convert (package librsvg2-bin of Debian and Ubuntu, librsvg of Homebrew, "
         "librsvg2-tools of Fedora) but it is not in PATH; SVG needs nothing");
  }
}

std::string png_of(const std::string& path, const std::string& svg) {
  const std::filesystem::path source = files::path_of(path + ".rotary.svg");
  files::write_whole("plot", source, svg);
  const std::optional<std::string> png =
      output_of("rsvg-convert", {"--format=png", "--zoom=2", std::filesystem::absolute(source).string()});
  std::error_code ignored;
  std::filesystem::remove(source, ignored);
  if (!png || !png->starts_with("\x89PNG"))
    fail(Code::FILE, "plot", "rsvg-convert must make a PNG of the picture but failed");
  return *png;
}

// The whole file or nothing; "-" is standard output.
void write_picture(const std::string& path, const std::string& svg) {
  if (is_dash(files::path_of(path))) {
    std::cout << svg;
  } else {
    files::write_whole("plot", files::path_of(path), ending_of(path) == ".png" ? png_of(path, svg) : svg);
  }
}

void run(const PlotOptions& options) {
  check_usage(options);
  const bool writes = !options.output.empty();
  if (writes) check_picture(options.output);
  const auto is_asked = [&](const auto& kind) { return kind.first == options.request.kind; };
  Figure figure = std::find_if(kinds.begin(), kinds.end(), is_asked)->second(options.request);
  if (!options.title.empty()) figure.title = options.title;
  if (writes) write_picture(options.output, svg(figure));
  if (options.json) {
    Json json = {{"kind", options.request.kind}};
    json.update(json_of(figure));
    json["output"] = writes ? Json(options.output) : Json();
    std::cout << versioned(json) << '\n';
    return;
  }
  if (options.terminal || (!writes && out_is_terminal())) {
    std::cout << terminal(figure, text_width_in_columns(), figure.grid.x.empty() ? 20 : 32);
  } else if (!writes) {
    std::cout << svg(figure);
  }
  if (writes && !is_dash(options.output)) std::cout << "wrote " << printable(options.output) << '\n';
}

void add_rope_options(Command& command, PlotOptions& options) {
  PlotRequest& request = options.request;
  add_source_options(command, request.source, "");
  add_head_dim_option(command, request.source);
  add_rope_option(command, request.source);
  command.option("--scalings", request.scalings);
}

void add_kind_options(Command& command, PlotOptions& options) {
  PlotRequest& request = options.request;
  command.option("--positions", request.positions);
  command.option("--pairs", request.pairs);
  command.option("--cos", request.cos);
  command.option("--sin", request.sin);
  command.option("--queries", request.q);
  command.option("--keys", request.k);
  std::vector<std::string> layouts = layout_words;
  std::erase(layouts, "flat");
  command.option("--layout", request.layout, layouts);
  command.option("--envelope", request.envelope);
  command.option("--seed", request.seed);
  command.option("--step", request.step);
}

}  // namespace

void add_plot(CLI::App& app) {
  auto options = std::make_shared<PlotOptions>();
  Command command(app, "plot");
  std::vector<std::string> words;
  for (const auto& [word, draws] : kinds) words.push_back(word);
  command.option("KIND", options->request.kind, words);
  command.option("CONFIG,--config", options->request.configs);
  add_rope_options(command, *options);
  add_kind_options(command, *options);
  command.option("--title", options->title);
  command.option("--output", options->output);
  command.option("--terminal", options->terminal);
  command.option("--json", options->json);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
