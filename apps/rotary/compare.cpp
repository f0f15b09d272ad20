// rotary compare: training runs side by side, as a table and a plot.
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

#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/displayable.h"
#include "apps/shared/plot/figure.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "files/text/io.h"
#include "files/text/paths.h"
#include "runs.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

struct CompareOptions {
  std::vector<std::string> folders;
  std::string output;  // "": no plot is written
  bool json = false;
};

std::string loss_text(double loss) { return std::abs(loss) < 1e6 ? fixed(loss, 4) : significant(loss, 5); }

// ---- for people ----

Cells row_of(const Run& run, const Run& best) {
  const std::optional<double> value = run.value();
  Cells row = {displayable(run.name), displayable(run.position.value_or("-")),
               run.parameters ? std::to_string(*run.parameters) : "-", std::to_string(run.steps)};
  if (run.best) {
    row.insert(row.end(), {loss_text(*run.last), loss_text(run.best->second), std::to_string(run.best->first)});
  } else {
    row.insert(row.end(), {run.train ? loss_text(*run.train) + "*" : "-", "-", "-"});
  }
  const bool comparable = value && best.value() && run.best.has_value() == best.best.has_value();
  const double difference = comparable ? *value - *best.value() : 0;
  row.push_back(!comparable ? "-" : &run == &best ? "" : "+" + loss_text(difference));
  return row;
}

void print_table(const std::vector<Run>& runs) {
  constexpr std::size_t left_aligned = 2;
  constexpr std::size_t longest_name = 40;
  std::vector<Cells> rows = {{"run", "position", "parameters", "steps", "last loss", "best loss", "at step", "behind"}};
  for (const Run& run : runs) rows.push_back(row_of(run, runs.front()));
  for (Cells& row : rows) {
    for (std::size_t i = 0; i < left_aligned; ++i) row[i] = shorten_for_terminal(row[i], longest_name);
  }
  std::vector<Column> columns(rows.front().size(), {.right = true});
  std::fill_n(columns.begin(), left_aligned, Column{});
  const Columns aligned = Columns(std::move(columns)).fit(rows);
  for (const Cells& row : rows) std::cout << without_end_spaces(aligned.line(row)) << '\n';
}

void print_notes(const std::vector<Run>& runs) {
  const auto any = [&runs](auto&& test) { return std::any_of(runs.begin(), runs.end(), test); };
  if (any([](const Run& run) { return !run.best && run.train; }))
    std::cout << "* no validation lines: the training loss, mean of the last " << train_lines << " lines\n";
  if (any([](const Run& run) { return !run.value(); })) std::cout << "- a run without losses is not in the plot\n";
}

// ---- JSON: the keys are a contract ----

template <typename Value>
Json json_of(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

Json json_of(const Run& run) {
  Json json = {{"name", run.name},
               {"directory", run.directory},
               {"position", json_of(run.position)},
               {"parameters", json_of(run.parameters)},
               {"steps", run.steps},
               {"validation_loss", json_of(run.last)},
               {"best_validation_loss", run.best ? Json(run.best->second) : Json()},
               {"best_step", run.best ? Json(run.best->first) : Json()}};
  if (!run.best) json["train_loss"] = json_of(run.train);
  return json;
}

void run(const CompareOptions& options) {
  const bool writes = !options.output.empty();
  if (writes && files::path_of(options.output).extension() != ".svg")
    fail(Code::FORMAT, "compare", "the plot is SVG: --output must end in .svg but got '", options.output, "'");
  if (writes) check_output(files::path_of(options.output));
  const std::vector<Run> runs = read_runs("compare", options.folders);
  const Figure plot = plot_of(runs);
  if (writes) files::write_whole("compare", files::path_of(options.output), svg(plot));
  if (options.json) {
    Json list = Json::array();
    for (const Run& run : runs) list.push_back(json_of(run));
    std::cout << versioned({{"runs", std::move(list)}, {"plot", writes ? Json(options.output) : Json()}}) << '\n';
    return;
  }
  print_table(runs);
  print_notes(runs);
  std::cout << '\n' << terminal(plot);
  if (writes) std::cout << "\nwrote " << printable(options.output) << '\n';
}

}  // namespace

void add_compare(CLI::App& app) {
  auto options = std::make_shared<CompareOptions>();
  Command command(app, "compare");
  command.option("DIR", options->folders);
  command.option("--output", options->output);
  command.option("--json", options->json);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
