// Formulas of coordinates, as data/models.json spells them: + - * / and // (rounded down) of numbers, names, brackets
// and min, max, round (halves to even), floor and sqrt.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rotary::made {

using Formula = std::function<double()>;

// What the names stand for. A formula reads them as often as it is called, so that they may change in between.
class Names {
 public:
  // Called once for every name that is not set when a formula first has it.
  explicit Names(std::function<double(std::string_view)> otherwise) : otherwise_(std::move(otherwise)) {}
  const double& operator[](std::string_view name);
  void set(std::string_view name, double value);
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }

  // "a, b": a formula each, "": none. Both are called while these names live. Throw INTERNAL.
  std::vector<Formula> list(std::string_view text);
  Formula one(std::string_view text);
  // "name = formula; name = formula": sets them in this order, now.
  void define(std::string_view text);

 private:
  std::function<double(std::string_view)> otherwise_;
  std::map<std::string, double, std::less<>> values_;
};

}  // namespace rotary::made
