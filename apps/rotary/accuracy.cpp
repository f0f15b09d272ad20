// rotary accuracy: how far the common ways to make tables of cos and sin are from the exact one, for the user's rope.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "accuracy/measure.h"
#include "apps/rotary/inspect/summary.h"
#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/progress_line.h"
#include "apps/shared/terminal.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "files/text/paths.h"
#include "positions.h"
#include "rotary/config.h"
#include "rotary/threads.h"
#include "source.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;
using accuracy::Decade;
using accuracy::DecadeErrors;
using accuracy::Way;
using accuracy::WayErrors;

constexpr std::int64_t last_by_default = 9999999;
constexpr std::int64_t last_looked_at = std::int64_t{1} << 24;  // of the advice: float32 holds no odd position beyond

struct Options {
  Source source;
  std::optional<std::string> positions;
  double tolerance = 1e-3;
  std::optional<unsigned> threads;  // none: all cores
  bool json = false;
};

struct Study {
  const Model* model = nullptr;
  const ModelRope* used = nullptr;
  Frequencies frequencies;
  std::int64_t length = 0;
  bool is_default_rope = false;
  std::vector<Decade> decades;
  std::vector<WayErrors> ways;
  accuracy::Reach reach;
  std::string sampling;
  std::string advice;
};

// "4.7e-07" as "4.7e-7".
std::string short_power(std::string text) {
  const std::size_t sign = text.find('e') + 1;
  if (sign > 0 && text.at(sign + 1) == '0') text.erase(sign + 1, 1);
  return text;
}

// "1e-3", "0.02", "1".
std::string tolerance_text(double value) {
  return value < 0.01 ? short_power(detail::number_text(value, std::chars_format::scientific)) : shortest(value);
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
  if (!source.head_dim && !source.base) {
    const std::size_t pairs = read_inv_freq(files::path_of(source.inv_freq)).size();
    source.head_dim = static_cast<int>(2 * std::min<std::size_t>(pairs, 32768));
  }
  return is_default;
}

std::vector<accuracy::Position> named_positions(const std::string& spec) {
  const PositionSet set = parse_positions(spec, 1);
  if (set.open_from) {
    throw Error(Code::POSITION,
                "[accuracy] --positions must end, as 0:4096 does: no tensor says here how many tokens there are; but "
                "got '" +
                    spec + "'");
  }
  std::vector<accuracy::Position> positions(set.integers.begin(), set.integers.end());
  for (const double value : set.reals) positions.push_back(accuracy::Position::real(value));
  return positions;
}

// All decades to the one beyond the context's.
std::int64_t last_position(const ModelRope& used) {
  std::int64_t last = last_by_default;
  while (used.context > last / 10 && last < 1000000000000000) last = last * 10 + 9;
  return last;
}

std::string sampling_of(const Options& options, const std::vector<Decade>& decades) {
  std::size_t count = 0;
  for (const Decade& decade : decades) count += decade.positions.size();
  if (options.positions) {
    if (count == 1) return "the one position of --positions";
    return "the " + with_separators(static_cast<std::int64_t>(count)) + " positions of --positions";
  }
  return "every position to " + std::to_string(accuracy::all_below - 1) + "; of each decade beyond, " +
         std::to_string(accuracy::spread) + " that divide it evenly, its last " + std::to_string(accuracy::spread) +
         ", and the powers of two and their neighbours";
}

std::string advice_of(const Options& options, const Study& study) {
  const std::string within = "float32 is within " + tolerance_text(options.tolerance);
  const std::int64_t context = study.used->context;
  const std::string last = std::to_string(study.reach.last);
  if (study.reach.last < 0) return within + " nowhere; use exact";
  if (study.reach.to_the_end) return within + " up to " + last + ", as far as was looked; exact is at every position";
  if (context > 0 && study.reach.last >= context - 1) {
    return within + " up to " + last + ", which covers the context of " + std::to_string(context) +
           "; beyond, use exact";
  }
  const std::string reminder = context > 0 ? " (the context is " + std::to_string(context) + ")" : "";
  return within + " up to " + last + "; beyond" + reminder + ", use exact";
}

// model must outlive the study.
Study study_of(const Options& options, const Model& model, bool is_default_rope) {
  Study study;
  study.model = &model;
  study.is_default_rope = is_default_rope;
  study.used = &chosen_rope(model, options.source);
  study.length = study.used->context;
  if (options.positions) {
    study.decades = accuracy::decades_of(named_positions(*options.positions));
    study.length = parse_positions(*options.positions, 1).length();
  } else {
    study.decades = accuracy::default_decades(last_position(*study.used));
  }
  study.length = options.source.length.value_or(study.length);
  study.frequencies = frequencies_of(options.source, study.used->rope, study.length);
  const accuracy::Subject subject(study.used->rope, study.frequencies);
  std::vector<Way> ways;
  for (const accuracy::WayInfo& known : accuracy::all_ways()) ways.push_back(known.way);
  std::int64_t count = 0;
  for (const Decade& decade : study.decades) count += static_cast<std::int64_t>(decade.positions.size());
  const ThreadPool pool(options.threads.value_or(0));
  ProgressLine progress("accuracy", std::max<std::int64_t>(count, 1));
  study.ways = accuracy::measure(subject, ways, study.decades, pool, [&](std::int64_t done) { progress.done(done); });
  progress.clear();
  study.reach = accuracy::float32_reach(subject, options.tolerance, last_looked_at);
  study.sampling = sampling_of(options, study.decades);
  study.advice = advice_of(options, study);
  return study;
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
  const Columns table = Columns(columns, 2, "  ").fit(rows);
  for (const Cells& row : rows) std::cout << table.line(row) << '\n';
}

std::optional<double> cos_sin_of(const DecadeErrors& errors) {
  return errors.cos_sin ? std::optional(errors.cos_sin->error) : std::nullopt;
}
std::optional<double> largest_score_of(const DecadeErrors& errors) {
  return errors.scores ? std::optional(errors.scores->largest) : std::nullopt;
}
std::optional<double> rms_score_of(const DecadeErrors& errors) {
  return errors.scores ? std::optional(errors.scores->rms) : std::nullopt;
}

void print_scores(const Study& study) {
  print_table(study, "largest error of the score q.k, both positions in the decade, for any unit vectors q and k",
              largest_score_of);
  print_table(study, "root mean square of that error, for q and k of random direction", rms_score_of);
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

void print(const Study& study) {
  if (study.is_default_rope) std::cout << "no CONFIG: base 10000 and head_dim 128\n";
  std::cout << describe(*study.model, *study.used, study.frequencies) << '\n';
  for (const std::string& note : notes_on(*study.model, *study.used)) std::cout << "note: " << printable(note) << '\n';
  const bool scaled = study.frequencies.attention_factor != 1;
  print_table(study,
              std::string("largest error of cos and sin, by position") +
                  (scaled ? " (the table holds the attention factor)" : ""),
              cos_sin_of);
  const std::vector<DecadeErrors>& any_way = study.ways.front().decades;
  const auto has_scores = [](const DecadeErrors& errors) { return errors.scores.has_value(); };
  const bool scores = std::any_of(any_way.begin(), any_way.end(), has_scores);
  if (scores) print_scores(study);
  std::cout << '\n';
  for (const std::string& line : wrapped("measured at " + study.sampling + footnote_of(study, scores), 98)) {
    std::cout << line << '\n';
  }
  std::cout << '\n' << painted(study.advice, Colour::bold) << '\n';
}

// ---- as JSON ----

Json json_of_rope(const Study& study) {
  const Rope& rope = study.used->rope;
  Json json = {{"index", static_cast<std::size_t>(study.used - study.model->ropes.data())},
               {"part", study.used->part},
               {"head_dim", rope.head_dim},
               {"rotary_dim", rope.rotary_dim},
               {"base", rope.inv_freq.empty() ? Json(rope.base) : Json(nullptr)},
               {"scaling", name(rope.scaling)},
               {"attention_factor", study.frequencies.attention_factor},
               {"context", study.used->context > 0 ? Json(study.used->context) : Json(nullptr)},
               {"length", study.length},
               {"inv_freq", study.frequencies.inv_freq}};
  return json;
}

Json json_of(const accuracy::Position& position) {
  return position.is_whole() ? Json(position.whole()) : Json(position.as_double());
}

Json json_of(const WayErrors& way) {
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  Json cos_sin = Json::array(), at = Json::array(), scores = Json::array(), rms = Json::array();
  for (const DecadeErrors& errors : way.decades) {
    cos_sin.push_back(number(cos_sin_of(errors)));
    scores.push_back(number(largest_score_of(errors)));
    rms.push_back(number(rms_score_of(errors)));
    if (!errors.cos_sin) {
      at.push_back(nullptr);
      continue;
    }
    at.push_back({{"position", json_of(errors.cos_sin->position)},
                  {"pair", errors.cos_sin->pair},
                  {"of", errors.cos_sin->of_sine ? "sin" : "cos"}});
  }
  return {{"way", accuracy::info(way.way).name}, {"meaning", accuracy::info(way.way).meaning},
          {"cos_sin", std::move(cos_sin)},       {"cos_sin_at", std::move(at)},
          {"scores", std::move(scores)},         {"scores_rms", std::move(rms)}};
}

Json json_of(const Options& options, const Study& study) {
  Json decades = Json::array(), ways = Json::array();
  for (const Decade& decade : study.decades) {
    decades.push_back({{"first", decade.first}, {"last", decade.last}, {"positions", decade.positions.size()}});
  }
  for (const WayErrors& way : study.ways) ways.push_back(json_of(way));
  const Json within = {
      {"tolerance", options.tolerance}, {"last", study.reach.last}, {"to_the_end", study.reach.to_the_end}};
  return {{"rope", json_of_rope(study)}, {"decades", std::move(decades)}, {"ways", std::move(ways)},
          {"float32_within", within},    {"advice", study.advice},        {"sampling", study.sampling}};
}

void run(Options options) {
  const bool is_default_rope = complete(options.source);
  check_source_without_tensor(options.source);
  const Model model = read_model(options.source, options.source.head_dim.value_or(0));
  const Study study = study_of(options, model, is_default_rope);
  if (options.json) {
    std::cout << json_text(json_of(options, study)) << '\n';
  } else {
    print(study);
  }
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
  auto options = std::make_shared<Options>();
  Command command(app, "accuracy", "Show how far the common ways to make tables are from the exact one");
  add_source_options(command, options->source);
  add_head_dim_option(command, options->source);
  add_rope_option(command, options->source);
  command.added("--base").help("rope_theta, above 1. Instead of the config's, or without CONFIG (default 10000)");
  command.added("--head-dim").help("without CONFIG: elements of one head (default 128)");
  command.added("--pairing").help("which two elements turn together; the accuracy does not depend on it");
  command.added("--length")
      .help(
          "tokens in play; only the scalings dynamic and longrope depend on it.\n"
          "Default: the context, or the largest position of --positions + 1");
  command
      .option("--positions", options->positions,
              "the positions to measure at, ends not included: 7, 0:4096, -5:5, 0:8,100:104; or a .npy of\n"
              "[tokens]. Each pair of a rope of several axes takes them (default: a sample of each decade)")
      .type_name("SPEC");
  command.option("--tolerance", options->tolerance, "the error that the advice allows float32, from 1e-6 to 1")
      .range(1e-6, 1.0)
      .type_name("T")
      .shows_default();
  command
      .option("--threads", options->threads,
              "threads to use; 0: all cores (default: all; the results are the same bits)")
      .range(0U, 1024U)
      .type_name("N");
  command.flag("--json", options->json, "as JSON, every double with 17 digits");
  command.footer(footer());
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
