#include "formula.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "values/fail.h"

namespace rotary::made {
namespace {

constexpr std::string_view name_letters = "abcdefghijklmnopqrstuvwxyz_0123456789.";

double divided_down(double a, double b) { return std::floor(a / b); }

Formula joined(double (*of)(double, double), Formula a, Formula b) {
  return [of, a = std::move(a), b = std::move(b)] { return of(a(), b()); };
}

// Recursive descent; a formula is built once and called for every token.
class Parser {
 public:
  Parser(std::string_view text, Names& names) : whole_(text), left_(text), names_(names) {}

  bool takes(std::string_view sign) {
    left_.remove_prefix(std::min(left_.find_first_not_of(' '), left_.size()));
    const bool there = left_.starts_with(sign);
    if (there) left_.remove_prefix(sign.size());
    return there;
  }
  bool ended() { return takes("") && left_.empty(); }
  void expect(bool there) const {
    if (!there) fail(Code::INTERNAL, "models", "data/models.json: no formula: ", whole_);
  }
  std::string_view word() {
    takes("");
    const std::string_view found = left_.substr(0, left_.find_first_not_of(name_letters));
    left_.remove_prefix(found.size());
    expect(!found.empty());
    return found;
  }

  Formula sum() {
    Formula found = product();
    while (true) {
      if (takes("+")) {
        found = joined([](double a, double b) { return a + b; }, found, product());
      } else if (takes("-")) {
        found = joined([](double a, double b) { return a - b; }, found, product());
      } else {
        return found;
      }
    }
  }

 private:
  Formula product() {
    Formula found = factor();
    while (true) {
      if (takes("*")) {
        found = joined([](double a, double b) { return a * b; }, found, factor());
      } else if (takes("//")) {
        found = joined(divided_down, found, factor());
      } else if (takes("/")) {
        found = joined([](double a, double b) { return a / b; }, found, factor());
      } else {
        return found;
      }
    }
  }

  Formula factor() {
    if (takes("-")) return [of = factor()] { return -of(); };
    if (takes("(")) {
      Formula found = sum();
      expect(takes(")"));
      return found;
    }
    const std::string_view name = word();
    if (name.front() >= '0' && name.front() <= '9') {
      double number = 0;
      expect(std::from_chars(name.data(), name.data() + name.size(), number).ptr == name.data() + name.size());
      return [number] { return number; };
    }
    if (takes("(")) return called(name);
    return [&value = names_[name]] { return value; };
  }

  Formula called(std::string_view name) {
    Formula found = sum();
    while (takes(",")) {
      expect(name == "min" || name == "max");
      using Choice = double (*)(double, double);
      const Choice smaller = [](double a, double b) { return std::min(a, b); };
      const Choice larger = [](double a, double b) { return std::max(a, b); };
      found = joined(name == "min" ? smaller : larger, found, sum());
    }
    expect(takes(")"));
    if (name == "min" || name == "max") return found;
    expect(name == "sqrt" || name == "round" || name == "floor");
    if (name == "sqrt") return [found] { return std::sqrt(found()); };
    if (name == "round") return [found] { return std::nearbyint(found()); };
    return [found] { return std::floor(found()); };
  }

  std::string_view whole_, left_;
  Names& names_;
};

}  // namespace

const double& Names::operator[](std::string_view name) {
  const auto known = values_.find(name);
  if (known != values_.end()) return known->second;
  return values_.emplace(name, otherwise_(name)).first->second;
}

void Names::set(std::string_view name, double value) { values_.insert_or_assign(std::string(name), value); }

std::vector<Formula> Names::list(std::string_view text) {
  std::vector<Formula> found;
  Parser parser(text, *this);
  if (parser.ended()) return found;
  do found.push_back(parser.sum());
  while (parser.takes(","));
  parser.expect(parser.ended());
  return found;
}

Formula Names::one(std::string_view text) {
  std::vector<Formula> found = list(text);
  Parser(text, *this).expect(found.size() == 1);
  return std::move(found[0]);
}

void Names::define(std::string_view text) {
  for (Parser parser(text, *this); !parser.ended();) {
    const std::string name(parser.word());
    parser.expect(parser.takes("="));
    set(name, parser.sum()());
    parser.takes(";");
  }
}

}  // namespace rotary::made
