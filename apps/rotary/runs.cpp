#include "runs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "files/text/io.h"
#include "files/text/json.h"
#include "files/text/paths.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::cli {

namespace {

namespace fs = std::filesystem;

files::Json read_object(const char* operation, const fs::path& path) {
  const std::string in_brackets = std::string("[") + operation + "] ";
  const std::string text = files::InputFile(operation, path).text();
  try {
    files::Json object = files::parse_json(text);
    if (object.is_object()) return object;
  } catch (const Error& error) {
    const std::string why = error.what();
    throw Error(Code::JSON, in_brackets + files::path_text(path) + ": " + why.substr(why.find("] ") + 2));
  }
  throw Error(Code::FORMAT, in_brackets + files::path_text(path) + ": a config must be a JSON object");
}

// Any folder with a loss.jsonl can be compared: a key that is absent or has another type is ignored.
void read_description(const char* operation, Run& run) {
  const fs::path path = files::path_of(run.directory) / "config.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  const files::Json config = read_object(operation, path);
  const auto position = config.find("position_embedding_type");
  if (position != config.end() && position->is_string()) run.position = position->get<std::string>();
  const auto parameters = config.find("parameters");
  if (parameters != config.end() && parameters->is_number_unsigned() &&
      parameters->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)) {
    run.parameters = parameters->get<std::int64_t>();
  }
}

double mean_of_the_end(const std::vector<std::pair<std::int64_t, double>>& losses) {
  const std::size_t count = std::min(losses.size(), train_lines);
  double sum = 0;
  for (std::size_t i = losses.size() - count; i < losses.size(); ++i) sum += losses[i].second;
  return sum / static_cast<double>(count);
}

// A folder of a model, or its config.json, instead of a run.
void refuse_models(const char* operation, const fs::path& folder) {
  std::error_code ignored;
  const bool config_alone = fs::exists(folder / "config.json", ignored) && !fs::exists(folder / "loss.jsonl", ignored);
  if (config_alone || folder.extension() == ".json") {
    fail(Code::FILE, operation, files::path_text(folder),
         ": a training run must have a loss.jsonl but this is a model; 'rotary inspect' shows its rope");
  }
}

Run read_run(const char* operation, const std::string& folder) {
  Run run;
  run.directory = folder;
  refuse_models(operation, files::path_of(folder));
  run.log = read_loss_log(files::path_of(folder) / "loss.jsonl");
  read_description(operation, run);
  run.steps = run.log.steps;
  if (!run.log.train.empty()) run.train = mean_of_the_end(run.log.train);
  if (run.log.validation.empty()) return run;
  run.last = run.log.validation.back().second;
  run.best = *std::min_element(run.log.validation.begin(), run.log.validation.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; });
  return run;
}

std::vector<std::string> path_parts(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(files::path_of(path), error);
  std::vector<std::string> parts;
  for (const fs::path& part : (error ? files::path_of(path) : absolute).lexically_normal()) {
    if (!part.empty() && !part.has_root_path()) parts.push_back(files::path_text(part));
  }
  if (parts.empty()) parts.emplace_back("/");
  return parts;
}

// The last `count` parts: "b/c" of a/b/c for 2.
std::string end_of(const std::vector<std::string>& parts, std::size_t count) {
  std::string text;
  for (std::size_t i = parts.size() - std::min(count, parts.size()); i < parts.size(); ++i)
    text += (text.empty() ? "" : "/") + parts[i];
  return text;
}

}  // namespace

std::optional<double> Run::value() const { return best ? best->second : train; }

std::vector<std::string> unique_names(const std::vector<std::string>& paths) {
  std::vector<std::vector<std::string>> parts;
  for (const std::string& path : paths) parts.push_back(path_parts(path));
  std::vector<std::string> names;
  for (const std::vector<std::string>& mine : parts) {
    std::size_t count = 1;
    const auto shared = [&](const std::vector<std::string>& other) {
      return other != mine && end_of(other, count) == end_of(mine, count);
    };
    while (count < mine.size() && std::any_of(parts.begin(), parts.end(), shared)) ++count;
    names.push_back(end_of(mine, count));
  }
  std::set<std::string> taken(names.begin(), names.end());
  std::set<std::string> seen;
  for (std::string& name : names) {
    const std::string plain = name;
    for (int number = 2; !seen.insert(name).second; ++number) {
      std::string candidate = plain + " (" + std::to_string(number) + ")";
      if (taken.insert(candidate).second) name = std::move(candidate);
    }
  }
  return names;
}

std::vector<Run> read_runs(const char* operation, const std::vector<std::string>& folders) {
  const std::vector<std::string> names = unique_names(folders);
  std::vector<Run> runs;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    runs.push_back(read_run(operation, folders[i]));
    runs.back().name = names[i];
  }
  const auto kind = [](const Run& run) { return run.best ? 0 : run.train ? 1 : 2; };
  std::stable_sort(runs.begin(), runs.end(), [kind](const Run& a, const Run& b) {
    return std::pair(kind(a), a.value().value_or(0)) < std::pair(kind(b), b.value().value_or(0));
  });
  return runs;
}

Figure plot_of(const std::vector<Run>& runs) {
  const bool all_validated =
      std::all_of(runs.begin(), runs.end(), [](const Run& run) { return run.best || !run.value(); });
  Figure plot;
  plot.title = all_validated ? "Validation loss" : "Loss";
  plot.x_label = "step";
  plot.y_label = "nats per token";
  for (const Run& run : runs) {
    const bool validated = run.best.has_value();
    const std::string name = run.name + (validated ? "" : " (training)");
    Line line = validated ? line_of(name, run.log.validation, run.log.lost_validation)
                          : line_of(name, run.log.train, run.log.lost_train);
    if (!line.points.empty() || !line.lost.empty()) plot.lines.push_back(std::move(line));
  }
  return plot;
}

}  // namespace rotary::cli
