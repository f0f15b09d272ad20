// rotary accuracy: how far the common ways to make tables of cos and sin are from the exact one, for the user's rope.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/rotary/inspect/shown.h"
#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/progress_line.h"
#include "apps/shared/terminal.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "files/text/paths.h"
#include "rotary/accuracy.h"
#include "rotary/config.h"
#include "rotary/positions.h"
#include "rotary/threads.h"
#include "source.h"

namespace rotary::cli {

namespace {

using accuracy::Decade;
using accuracy::DecadeErrors;
using accuracy::Study;
using accuracy::WayErrors;

struct AccuracyOptions {
  Source source;
  std::optional<std::string> positions;
  double tolerance = 1e-3;
  std::optional<unsigned> threads;  // none: all cores
  bool json = false;
};

// "4.7e-07" as "4.7e-7".
std::string short_power(std::string text) {
  const std::size_t sign = text.find('e') + 1;
  if (sign > 0 && text.at(sign + 1) == '0') text.erase(sign + 1, 1);
  return text;
}

// ---- the rope and the positions ----

// Fills in what the study does not need to be told. Returns whether nothing describes a rope.
bool complete(Source& source) {
  if (!source.config.empty()) return false;
  const bool is_default = !source.base && source.inv_freq.empty() && !source.head_dim && !source.rotary_dim &&
                          !source.first && source.scaling.empty();
  if (!source.base && source.inv_freq.empty()) source.base = 10000;
  if (source.pairing.empty()) source.pairing = "half";  // turns the same angles as any
  if (!source.head_dim && source.inv_freq.empty()) source.head_dim = 128;
  if (!source.head_dim && !source.base)
    source.head_dim = 2 * read_pair_rows(files::path_of(source.inv_freq), "inv_freq").pairs;
  return is_default;
}

std::vector<accuracy::Position> named_positions(const std::string& spec) {
  const PositionSet set = parse_positions(spec, 1);
  if (set.open_from) {
    fail(Code::POSITION, "accuracy",
         "--positions must end, as 0:4096 does: no tensor says here how many tokens there are; but got '", spec, "'");
  }
  std::vector<accuracy::Position> positions(set.integers.begin(), set.integers.end());
  for (const double value : set.reals) positions.push_back(accuracy::Position::real(value));
  return positions;
}

accuracy::Request request_of(const AccuracyOptions& options, const Model& model) {
  const ModelRope& used = chosen_rope(model, options.source);
  accuracy::Request request;
  request.model = model;
  request.rope = static_cast<std::size_t>(&used - model.ropes.data());
  request.length = used.context;
  if (options.positions) {
    request.positions = named_positions(*options.positions);
    request.length = parse_positions(*options.positions, 1).length();
  }
  request.length = options.source.length.value_or(request.length);
  request.frequencies = frequencies_of(options.source, used, request.length);
  request.tolerance = options.tolerance;
  return request;
}

Study measured(const accuracy::Request& request, unsigned threads) {
  const ThreadPool pool(threads);
  std::optional<ProgressLine> progress;
  return accuracy::study(request, pool, [&](std::int64_t done, std::int64_t all) {
    if (!progress) progress.emplace("accuracy", all);
    progress->done(done);
    if (done == all) progress->clear();
  });
}

// ---- as text ----

// "10k" for 10000, "999".
std::string short_number(std::int64_t value) {
  const char* const units[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t unit = 0;
  for (; value >= 1000; value /= 1000) ++unit;
  return std::to_string(value) + units[unit];
}

// "0-9", "10-99", "100-999", "1k-10k", ... "1E-9E".
std::string decade_name(const Decade& decade) {
  if (decade.last < 1000) return std::to_string(decade.first) + "-" + std::to_string(decade.last);
  const std::int64_t end = decade.last % 10 == 9 ? decade.last / 10 * 10 + 10 : decade.last;
  return short_number(decade.first) + "-" + short_number(end);
}

// "4.7e-7", "0.0024", "0.17", "2.0".
std::string error_text(double error) {
  if (error == 0) return "0";
  if (error < 1e-3) return short_power(scientific(error, 1));
  if (error >= 0.995) return fixed(error, 1);
  return significant(error, 2);
}

template <class Errors>
std::optional<double> value_of(const std::optional<Errors>& errors, double Errors::*value) {
  return errors ? std::optional((*errors).*value) : std::nullopt;
}

using Show = std::function<std::optional<double>(const DecadeErrors&)>;

void print_table(const Study& study, const std::string& title, const Show& show) {
  std::cout << '\n' << painted(title, Colour::bold) << '\n';
  std::vector<Cells> rows(1, {"way"});
  for (const Decade& decade : study.decades) rows.front().push_back(decade_name(decade));
  for (const WayErrors& way : study.ways) {
    rows.push_back({accuracy::info(way.way).name});
    for (const DecadeErrors& errors : way.decades) {
      const std::optional<double> value = show(errors);
      rows.back().push_back(value ? error_text(*value) : "-");
    }
  }
  std::vector<Column> columns(rows.front().size(), Column{.right = true, .width = 7});
  columns.front() = {.width = 16};
  std::cout << Columns(columns, 2, "  ").fit(rows).text(rows);
}

void print_tables(const Study& study, bool scores) {
  const bool scaled = study.frequencies.attention_factor != 1;
  print_table(study,
              std::string("largest error of cos and sin, by position") +
                  (scaled ? " (the table holds the attention factor)" : ""),
              [](const DecadeErrors& errors) { return value_of(errors.cos_sin, &accuracy::Largest::error); });
  if (!scores) return;
  print_table(study, "largest error of the score q.k, both positions in the decade, for any unit vectors q and k",
              [](const DecadeErrors& errors) { return value_of(errors.scores, &accuracy::ScoreErrors::largest); });
  print_table(study, "root mean square of that error, for q and k of random direction",
              [](const DecadeErrors& errors) { return value_of(errors.scores, &accuracy::ScoreErrors::rms); });
}

// What the tables do not show, and why.
std::string footnote_of(const Study& study, bool scores) {
  bool not_run = false, alone = false;
  for (const WayErrors& way : study.ways) {
    for (const DecadeErrors& errors : way.decades) {
      not_run = not_run || !errors.cos_sin;
      alone = alone || (errors.cos_sin && !errors.scores);
    }
  }
  std::string text = not_run ? "; -: not run there" : "";
  if (!scores) return text + "; no scores: a score needs two positions of a decade, and each has one alone";
  return text + (alone ? "; no score where a decade has one position alone" : "");
}

void print(const Study& study, const Model& model) {
  const ModelRope& used = model.ropes[study.rope];
  std::cout << describe(model, used, study.frequencies) << '\n';
  for (const std::string& note : notes_on(model, used)) std::cout << "note: " << printable(note) << '\n';
  const std::vector<DecadeErrors>& any_way = study.ways.front().decades;
  const auto has_scores = [](const DecadeErrors& errors) { return errors.scores.has_value(); };
  const bool scores = std::any_of(any_way.begin(), any_way.end(), has_scores);
  print_tables(study, scores);
  std::cout << '\n';
  std::cout << wrapped("measured at " + study.sampling + footnote_of(study, scores), 0, 98) << "\n\n"
            << painted(study.advice, Colour::bold) << '\n';
}

void run(AccuracyOptions options) {
  const bool is_default_rope = complete(options.source);
  check_source_without_tensor(options.source);
  const Model model = read_model(options.source, options.source.head_dim.value_or(0));
  const accuracy::Request request = request_of(options, model);
  const Study study = measured(request, options.threads.value_or(0));
  if (options.json) {
    std::cout << with_version(accuracy::to_json(study)) << '\n';
    return;
  }
  if (is_default_rope) std::cout << "no CONFIG: base 10000 and head_dim 128\n";
  print(study, model);
}

std::string footer() {
  std::string text =
      "For each way to make a table of cos and sin, by the number of digits of the position: the largest\n"
      "|table - exact| of all pairs, and what it does to the score of unit vectors. Exact is of the position\n"
      "times inv_freq as 'rotary inspect' and --json show it, a double. docs/accuracy.md has the definitions.\n"
      "The ways:\n";
  const Columns columns({{.width = 16}, {}}, 2, "  ");
  for (const accuracy::WayInfo& way : accuracy::all_ways()) text += columns.line({way.name, way.meaning}) + '\n';
  return text +
         "Examples:\n"
         "  rotary accuracy\n"
         "  rotary accuracy Llama-3.1-8B/\n"
         "  rotary accuracy config.json --positions 0:4096 --json\n"
         "  rotary accuracy --base 500000 --head-dim 64 --scaling linear --factor 4";
}

}  // namespace

void add_accuracy(CLI::App& app) {
  auto options = std::make_shared<AccuracyOptions>();
  Command command(app, "accuracy");
  add_source_options(command, options->source);
  add_head_dim_option(command, options->source);
  add_rope_option(command, options->source);
  command.option("--positions", options->positions);
  command.option("--tolerance", options->tolerance);
  command.option("--threads", options->threads);
  command.option("--json", options->json);
  command.footer(footer());
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
