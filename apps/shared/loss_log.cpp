#include "loss_log.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "files/text/io.h"
#include "files/text/json.h"
#include "files/text/paths.h"
#include "rotary/error.h"

namespace rotary::cli {

namespace {

using files::Json;
using Losses = std::vector<std::pair<std::int64_t, double>>;

constexpr const char* operation = "read_loss_log";

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path), text_(files::InputFile(operation, path).text()) {}

  LossLog read() {
    std::string_view rest = text_;
    for (number_ = 1; !rest.empty(); ++number_) {
      const std::size_t end = rest.find('\n');
      const bool complete = end != std::string_view::npos;
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(complete ? end + 1 : rest.size());
      if (is_blank(line)) continue;
      const std::optional<Json> object = parse(line, complete);
      if (object) take(*object);
    }
    note_end(log_.train, log_.lost_train);
    note_end(log_.validation, log_.lost_validation);
    return std::move(log_);
  }

 private:
  [[noreturn]] void fail(Code code, const std::string& rule) const {
    throw Error(code, std::string("[") + operation + "] " + files::path_text(path_) + ", line " +
                          std::to_string(number_) + ": " + rule);
  }

  // Where the last losses are lost, from which step on.
  void note_end(const Losses& losses, const std::vector<std::int64_t>& lost) {
    const std::int64_t last = losses.empty() ? -1 : losses.back().first;
    const auto first = std::upper_bound(lost.begin(), lost.end(), last);
    if (first != lost.end() && (!log_.not_finite_from || *first < *log_.not_finite_from)) log_.not_finite_from = *first;
  }

  // nullopt for a line that was cut off.
  std::optional<Json> parse(std::string_view line, bool complete) const {
    Json object;
    try {
      object = files::parse_json(line);
    } catch (const Error& error) {
      if (!complete && line.front() == '{') return std::nullopt;
      const std::string_view why = error.what();
      fail(Code::JSON, std::string(why.substr(why.find("] ") + 2)));
    }
    if (!object.is_object()) fail(Code::FORMAT, "a line must be an object but got " + files::shown(object));
    return object;
  }

  void take(const Json& object) {
    const bool trained = object.contains("train_loss");
    const bool validated = object.contains("validation_loss");
    if (!trained && !validated) return;
    if (!object.contains("step")) fail(Code::FORMAT, "a loss must have its step but got " + files::shown(object));
    const std::int64_t step = step_of(object.at("step"));
    if (trained) take_loss(log_.train, log_.lost_train, step, object, "train_loss");
    if (validated) take_loss(log_.validation, log_.lost_validation, step, object, "validation_loss");
    log_.steps = step;
  }

  std::int64_t step_of(const Json& value) const {
    constexpr std::int64_t most = std::int64_t{1} << 53;  // plots compute in double
    const bool counts = value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
    if (!counts) fail(Code::FORMAT, "step must be an integer from 0 to 2^53 but got " + files::shown(value));
    return value.get<std::int64_t>();
  }

  void take_loss(Losses& losses, std::vector<std::int64_t>& lost, std::int64_t step, const Json& object,
                 const char* key) const {
    const Json& value = object.at(key);
    if (!value.is_number() && !value.is_null())
      fail(Code::FORMAT, std::string(key) + " must be a number but got " + files::shown(value));
    while (!losses.empty() && losses.back().first >= step) losses.pop_back();
    while (!lost.empty() && lost.back() >= step) lost.pop_back();
    if (value.is_number() && !files::is_not_finite(value)) {
      losses.emplace_back(step, value.get<double>());
    } else {
      lost.push_back(step);
    }
  }

  const std::filesystem::path& path_;
  std::string text_;
  std::int64_t number_ = 0;
  LossLog log_;
};

}  // namespace

LossLog read_loss_log(const std::filesystem::path& path) { return Reader(path).read(); }

Line line_of(const std::string& name, const std::vector<std::pair<std::int64_t, double>>& losses,
             const std::vector<std::int64_t>& lost) {
  Line line{name, {}, false};
  for (const auto& [step, loss] : losses) line.points.emplace_back(static_cast<double>(step), loss);
  line.lost.assign(lost.begin(), lost.end());
  return line;
}

Figure loss_plot(const LossLog& log, const std::string& title) {
  Figure plot{title, "step", "loss, nats per token", false, false, {}};
  if (!log.train.empty()) plot.lines.push_back(line_of("training", log.train, log.lost_train));
  if (!log.validation.empty()) plot.lines.push_back(line_of("validation", log.validation, log.lost_validation));
  if (plot.lines.size() == 2) plot.lines.front().faint = true;
  return plot;
}

}  // namespace rotary::cli
