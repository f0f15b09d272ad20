// rotary accuracy: the errors of common ways to compute tables of cos and sin, for the user's rope.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "inspect/shown.h"
#include "rotary/accuracy.h"
#include "rotary/positions.h"
#include "shared/columns.h"
#include "shared/command.h"
#include "shared/terminal.h"
#include "shared/text.h"
#include "source.h"

namespace rotary::cli {
namespace {

struct AccuracyOptions {
  Source source;
  std::optional<std::string> positions;
  double tolerance = 0;
};

// Fills in the defaults of a rope without CONFIG. Returns whether no option describes a rope.
bool complete(Source& source) {
  if (!source.config.empty()) return false;
  const bool is_default = !source.base && source.inv_freq.empty() && !source.head_dim && !source.rotary_dim &&
                          !source.first && !source.scaling;
  if (!source.base && source.inv_freq.empty()) source.base = 10000;
  if (!source.pairing) source.pairing = Pairing::half;  // the angles do not depend on it
  if (!source.head_dim && source.inv_freq.empty()) source.head_dim = 128;
  if (!source.head_dim && !source.base) source.head_dim = 2 * read_pair_rows(source.inv_freq).pairs;
  return is_default;
}

accuracy::Request request_of(const AccuracyOptions& options) {
  accuracy::Request request;
  request.model = read_model(options.source, options.source.head_dim.value_or(0));
  const ModelRope& used = chosen_rope(request.model, options.source);
  request.rope = static_cast<std::size_t>(&used - request.model.ropes.data());
  request.length = part_of(request.model, used.part).context;
  if (options.positions) {
    const PositionSet set = parse_positions(*options.positions, 1);
    if (set.open_from) {
      fail(Code::POSITION, "accuracy",
           "--positions must end, as 0:4096 does, because no tensor gives the number of tokens, but got '",
           *options.positions, "'");
    }
    request.positions.assign(set.integers.begin(), set.integers.end());
    request.positions.insert(request.positions.end(), set.reals.begin(), set.reals.end());
    request.length = set.length();
  }
  request.length = options.source.length.value_or(request.length);
  request.frequencies = frequencies_of(options.source, request.model, used, request.length);
  request.tolerance = options.tolerance;
  return request;
}

// "0-9", "10-99", "100-999", "1k-10k", ... "1E-9E".
std::string decade_name(const accuracy::Decade& decade) {
  const auto short_number = [](std::int64_t value) {
    std::size_t unit = 0;
    for (; value >= 1000; value /= 1000) ++unit;
    return std::to_string(value) + std::string(" kMGTPE").substr(unit, unit > 0 ? 1 : 0);
  };
  const std::int64_t end = decade.last >= 1000 && decade.last % 10 == 9 ? decade.last + 1 : decade.last;
  return short_number(decade.first) + "-" + short_number(end);
}

// "4.7e-7", "0.0024", "0.17", "2.0".
std::string error_text(double error) {
  if (error == 0) return "0";
  if (error >= 1e-3) return error >= 0.995 ? fixed(error, 1) : significant(error, 2);
  std::string text = scientific(error, 1);
  if (text.at(text.find('e') + 2) == '0') text.erase(text.find('e') + 2, 1);
  return text;
}

void print(const accuracy::Request& request, const accuracy::Study& study) {
  const ModelRope& used = request.model.ropes[request.rope];
  std::cout << describe(request.model, used, request.frequencies, request.length) << '\n';
  for (const Note& note : notes_on(request.model, used))
    if (note.kind != NoteKind::derived) std::cout << "note: " << printable(sentence_of(note)) << '\n';
  const char* factor = request.frequencies.attention_factor == 1 ? "" : " (the table holds the attention factor)";
  std::cout << "\nlargest error of cos and sin, by position" << factor << '\n';
  std::vector<Cells> rows(1, {"way"});
  for (const accuracy::Decade& decade : study.decades) rows.front().push_back(decade_name(decade));
  const char* footnote = "";
  for (const auto& [way, of_decades] : study.ways) {
    rows.push_back({way.name});
    for (const std::optional<accuracy::Largest>& largest : of_decades) {
      rows.back().push_back(largest ? error_text(largest->error) : "-");
      if (!largest) footnote = "; -: not run there";
    }
  }
  std::vector<Column> columns(rows.front().size(), Column{.right = true, .width = 7});
  columns.front() = {.width = 16};
  std::cout << Columns(columns, 2, "  ").fit(rows).text(rows) << '\n'
            << wrapped("measured at " + study.sampling + footnote, 0, 98) << "\n\n"
            << study.advice << '\n';
}

void run(AccuracyOptions options) {
  const bool is_default_rope = complete(options.source);
  const accuracy::Request request = request_of(options);
  const accuracy::Study study = accuracy::study(request);
  if (asks_json()) return print_json(to_json(request, study));
  if (is_default_rope) std::cout << "no CONFIG: base 10000 and head_dim 128\n";
  print(request, study);
}

}  // namespace

void add_accuracy(Command& command) {
  auto options = std::make_shared<AccuracyOptions>();
  add_source_options(command, options->source);
  command.option("--head-dim", options->source.head_dim);
  command.option("--positions", options->positions);
  command.option("--tolerance", options->tolerance);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
