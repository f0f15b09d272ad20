// docs/models.md, from the sweep and the program's own knowledge.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "apps/rotary/model_sheet.h"
#include "apps/shared/text.h"
#include "sweep.h"

namespace rotary::sweep {
namespace {

struct Line {
  std::string model_type, part;
  cli::SheetRow cells = {};
  std::string inv_freq = "-", vector = "-", fact = {};
};

std::string measured(double difference) { return difference == 0 ? "0" : cli::digits(difference, 2); }

// One line per rope of one part; the fact stands in the first.
void add_lines(std::vector<Line>& lines, const std::string& type, const std::vector<ModelRope>& ropes, double partial,
               const std::vector<std::optional<Match>>& matches, const std::string& fact) {
  const std::vector<cli::SheetRow> rows = cli::sheet_rows(ropes, partial);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Line line{.model_type = type, .part = ropes[i].part, .cells = rows[i]};
    if (i < matches.size() && matches[i]) {
      line.inv_freq = measured(matches[i]->inv_freq);
      line.vector = measured(matches[i]->vector);
    }
    if (i == 0) line.fact = fact;
    lines.push_back(std::move(line));
  }
}

using Key = std::pair<std::string, std::string>;  // model_type, part

struct Page {
  std::vector<Line> lines;
  std::map<Key, std::string> without;  // why
  std::size_t swept = 0;               // ropes
  Match worst;
};

std::string join(const std::string& a, const std::string& b) { return a.empty() || b.empty() ? a + b : a + "; " + b; }

void add_record(Page& page, const Record& record, const std::map<Key, KnownModel>& known) {
  Model model;
  std::string error;
  try {
    model = parse_config(record.config.dump());
  } catch (const Error& thrown) {
    error = thrown.what();
  }
  std::set<std::string> parts;
  for (const ModelRope& rope : model.ropes) parts.insert(rope.part);
  for (const std::string& part : parts) {
    const std::vector<ModelRope> ours = ropes_of(model.ropes, part);
    const std::vector<SweptRope> theirs = ropes_of(record.ropes, part);
    const Comparison compared = compare(ours, theirs);
    page.swept += theirs.size();
    for (const auto& match : compared.matches) {
      if (!match || exception_of(record, part) != nullptr) continue;
      page.worst.inv_freq = std::max(page.worst.inv_freq, match->inv_freq);
      page.worst.vector = std::max(page.worst.vector, match->vector);
    }
    const auto found = known.find({record.model_type, part});
    std::string fact = found == known.end() ? "" : found->second.fact;
    if (const Exception* exception = exception_of(record, part)) fact = join(fact, exception->reason);
    add_lines(page.lines, record.name, ours, 1, compared.matches, fact);
  }
  for (const NoRope& none : record.none) {
    if (parts.count(none.part) == 0) page.without[{record.name, none.part}] = none.why;
  }
  if (!error.empty() && record.none.empty()) page.without[{record.name, ""}] = error;
}

void add_known(Page& page, const std::map<Key, KnownModel>& known, const std::set<Key>& shown) {
  for (const auto& [key, model] : known) {
    if (shown.count(key) != 0 || !model.rotary) continue;
    if (model.ropes.empty()) {
      page.without.emplace(key, model.why);
    } else {
      add_lines(page.lines, model.model_type, model.ropes, model.partial, {}, model.fact);
    }
  }
}

Page make_page() {
  std::map<Key, KnownModel> known;
  for (KnownModel& model : known_models()) known.emplace(Key{model.model_type, model.part}, std::move(model));
  Page page;
  std::set<Key> shown;
  for (const Record& record : records()) {
    add_record(page, record, known);
    for (const NoRope& none : record.none) shown.insert({record.name, none.part});
  }
  for (const Line& line : page.lines) shown.insert({line.model_type, line.part});
  add_known(page, known, shown);
  std::stable_sort(page.lines.begin(), page.lines.end(), [](const Line& a, const Line& b) {
    return std::tie(a.model_type, a.part) < std::tie(b.model_type, b.part);
  });
  return page;
}

std::string in_code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

void write_head(std::ostream& out, const Page& page) {
  std::set<std::string> types;
  for (const Line& line : page.lines) types.insert(line.model_type.substr(0, line.model_type.find('+')));
  out << "# The sheet of models\n\n"
         "Generated, not written, by `scripts/sweep.sh`: tools/sweep/sweep.py runs the models of transformers "
      << records().front().transformers << R"( and writes
`tests/golden/sweep/`; `ROTARY_UPDATE_DOCS=1 build/release/tests/sweep_test` writes this page from it. A test compares the two.
`rotary models` prints the same from the program's own table.

)" << page.lines.size()
      << " ropes of " << types.size() << " model types; " << page.swept
      << " of them are measured against the model's own rotary module and apply function: the worst\n"
         "relative difference of inv_freq is "
      << measured(page.worst.inv_freq) << ", the worst absolute difference of a rotated vector "
      << measured(page.worst.vector) << R"(. Rows without a measure (-) are remote
code, which transformers does not hold, and class defaults that it does not run.

A row is the default config of a class: what `rotary inspect` answers for a file that states its layers and heads and leaves
the rest out. `+` marks a file with one switch changed from its default. heads: of q, and of k after the slash where they are
fewer. rotary_dim: the width of the block that turns (`64 from 128`: it begins at element 128; `50%`: of a head whose size has
no default), pairs that stand still included. axes: how many coordinates a position has. layers: how many turn by this rope.

)";
}

void write_table(std::ostream& out, const std::vector<Line>& lines) {
  out << "| model_type | part | heads | head_dim | rotary_dim | pairing | base | scaling | axes | layers | inv_freq | "
         "vector | what is surprising |\n"
         "|---|---|--:|--:|--:|---|--:|---|--:|--:|--:|--:|---|\n";
  for (const Line& line : lines) {
    const cli::SheetRow& row = line.cells;
    out << "| " << in_code(line.model_type);
    for (const std::string& cell : {in_code(line.part), row.heads, row.head_dim, row.rotary_dim, row.pairing, row.base,
                                    row.scaling, row.axes, row.layers, line.inv_freq, line.vector, line.fact}) {
      out << " |" << (cell.empty() ? "" : " ") << cell;
    }
    out << " |\n";
  }
}

void write_without(std::ostream& out, const std::map<Key, std::string>& without) {
  out << "\n## Without a rope\n\nWhat has rotary code, or is named like it, and no rope by its defaults, and why.\n\n"
         "| model_type | part | why |\n|---|---|---|\n";
  for (const auto& [key, why] : without) {
    std::string cell = why;
    std::replace(cell.begin(), cell.end(), '|', '/');  // the table's own sign
    out << "| " << in_code(key.first) << " |" << (key.second.empty() ? "" : " ") << in_code(key.second) << " | " << cell
        << " |\n";
  }
}

}  // namespace

std::string models_page() {
  const Page page = make_page();
  std::ostringstream out;
  write_head(out, page);
  write_table(out, page.lines);
  if (!page.without.empty()) write_without(out, page.without);
  return out.str();
}

}  // namespace rotary::sweep
