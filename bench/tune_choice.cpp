#include "tune_choice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace rotary::measured {
namespace {

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::lround(part * static_cast<double>(values.size() - 1)))];
}

std::string number(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

double Choice::gain_percent() const { return best == built_in ? 0 : -percent[best]; }

Choice choose(std::string constant, std::string unit, std::vector<std::int64_t> values, std::int64_t built_in,
              const std::vector<Rounds>& cases) {
  Choice choice;
  choice.constant = std::move(constant);
  choice.unit = std::move(unit);
  choice.values = std::move(values);
  const auto place = std::find(choice.values.begin(), choice.values.end(), built_in);
  choice.best = choice.built_in = static_cast<std::size_t>(place - choice.values.begin());
  std::vector<std::vector<double>> ratios(choice.values.size());  // to the built-in value's time of the same round
  for (std::size_t value = 0; value < ratios.size(); ++value) {
    for (std::size_t round = 0; round < cases.front().size(); ++round) {
      double sum = 0;
      for (const Rounds& one : cases) sum += std::log(one[round][value] / one[round][choice.built_in]);
      ratios[value].push_back(100 * std::expm1(sum / static_cast<double>(cases.size())));
    }
    choice.percent.push_back(quantile(ratios[value], 0.5));
  }
  for (std::size_t value = 0; value < ratios.size(); ++value) {
    if (choice.percent[value] < choice.percent[choice.best]) choice.best = value;
  }
  const std::vector<double>& best = ratios[choice.best];
  choice.noise_percent = std::max(1.0, quantile(best, 0.75) - quantile(best, 0.25));
  return choice;
}

std::string text_of(std::int64_t value, const std::string& unit) {
  if (value == INT64_MAX) return "never";
  if (unit != "bytes" || value == 0) return std::to_string(value);
  const auto bytes = static_cast<double>(value);
  return value >= 1 << 20 ? number(bytes / (1 << 20), "%.4g MiB") : number(bytes / 1024, "%.4g KiB");
}

std::string sentence(const Choice& choice) {
  const std::string built_in = text_of(choice.values[choice.built_in], choice.unit);
  std::string line = choice.constant +
                     std::string(std::max<std::size_t>(19, choice.constant.size() + 1) - choice.constant.size(), ' ') +
                     "built in " + built_in;
  if (choice.best == choice.built_in) return line + ", which is the best";
  line += ", best " + text_of(choice.values[choice.best], choice.unit) + ", " +
          number(choice.gain_percent(), "%.1f %% faster");
  return line + (choice.within_noise() ? ": within noise" : ": more than noise") +
         number(choice.noise_percent, " (%.1f %%)");
}

std::string details(const Choice& choice) {
  std::string line = "  ";
  for (std::size_t value = 0; value < choice.values.size(); ++value) {
    line += (value == 0 ? "" : ", ") + text_of(choice.values[value], choice.unit) + " " +
            (value == choice.built_in ? "built in" : number(choice.percent[value], "%+.1f %%"));
  }
  return line;
}

std::string json_of(const Choice& choice) {
  const auto value = [&](std::size_t i) {
    return choice.values[i] == INT64_MAX ? std::string("null") : std::to_string(choice.values[i]);
  };
  std::string line = "{\"constant\":\"" + choice.constant + "\",\"unit\":\"" + choice.unit +
                     "\",\"built_in\":" + value(choice.built_in) + ",\"best\":" + value(choice.best) +
                     ",\"gain_percent\":" + number(choice.gain_percent(), "%.3f") +
                     ",\"noise_percent\":" + number(choice.noise_percent, "%.3f") +
                     ",\"within_noise\":" + (choice.within_noise() ? "true" : "false") + ",\"values\":[";
  for (std::size_t i = 0; i < choice.values.size(); ++i) {
    line += (i == 0 ? "[" : ",[") + value(i) + "," + number(choice.percent[i], "%.3f") + "]";
  }
  return line + "]}";
}

}  // namespace rotary::measured
