#include "command.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <type_traits>

namespace rotary::cli {

Option& Option::type_name(const std::string& word) {
  option_->type_name(word);
  return *this;
}

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::shows_default() {
  option_->capture_default_str();
  return *this;
}

Option& Option::one_of(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  return *this;
}

template <class T>
Option& Option::range(T least, T most) {
  option_->check(CLI::Range(least, most).description(""));
  if constexpr (std::is_floating_point_v<T>) {  // no comparison with a NaN is true, so CLI::Range lets it pass
    const auto refuse_nan = [](const std::string& word) {
      return std::isnan(std::strtod(word.c_str(), nullptr)) ? "must be a number but got " + word : std::string();
    };
    option_->check(CLI::Validator(refuse_nan, ""));
  }
  return *this;
}
template Option& Option::range(int, int);
template Option& Option::range(unsigned, unsigned);
template Option& Option::range(std::int64_t, std::int64_t);
template Option& Option::range(double, double);

Option& Option::one_value_each() {
  option_->allow_extra_args(false);
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::help(const std::string& text) {
  option_->description(text);
  return *this;
}

Command::Command(CLI::App& app, const std::string& name, const std::string& help)
    : app_(app.add_subcommand(name, help)) {}

Option Command::flag(const std::string& name, bool& value, const std::string& help) {
  return Option(app_->add_flag(name, value, help));
}

template <class T>
Option Command::option(const std::string& name, T& value, const std::string& help) {
  return Option(app_->add_option(name, value, help));
}
template Option Command::option(const std::string&, std::string&, const std::string&);
template Option Command::option(const std::string&, double&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::option(const std::string&, std::optional<std::string>&, const std::string&);
template Option Command::option(const std::string&, std::optional<double>&, const std::string&);
template Option Command::option(const std::string&, std::optional<int>&, const std::string&);
template Option Command::option(const std::string&, std::optional<unsigned>&, const std::string&);
template Option Command::option(const std::string&, std::optional<std::int64_t>&, const std::string&);

Option Command::added(const std::string& name) { return Option(app_->get_option(name)); }

Command& Command::footer(const std::string& text) {
  app_->footer(text);
  return *this;
}

Command& Command::group(const std::string& title) {
  app_->group(title);
  return *this;
}

Command& Command::runs(std::function<void()> run) {
  app_->callback(std::move(run));
  return *this;
}

}  // namespace rotary::cli
