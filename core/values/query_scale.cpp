// The factors on queries by position, as transformers 5.24, vLLM and SGLang compute them, in double.
#include "runtime/arithmetic.h"

#include "rotary/query_scale.h"

#include <cmath>

#include "values/fail.h"
#include "values/names.h"
#include "values/number_text.h"

namespace rotary {
namespace {

constexpr detail::Named<QueryForm> query_forms[] = {{QueryForm::none, "none"},   {QueryForm::steps, "steps"},
                                                    {QueryForm::log, "log"},     {QueryForm::power, "power"},
                                                    {QueryForm::ratio, "ratio"}, {QueryForm::learned, "learned"}};

void check_query_scale(const QueryScale& scale) {
  const auto require = [](bool holds, const auto&... sentence) {
    if (!holds) fail(Code::VALUE, "query_scale", sentence...);
  };
  const QueryForm form = scale.form;
  require(form < QueryForm::learned, "the form must be none, steps, log, power or ratio but got ", name(form),
          form == QueryForm::learned ? ", which is learned for each head and stored in the checkpoint" : "");
  if (form == QueryForm::none) return;
  const std::int64_t least = form == QueryForm::ratio ? 2 : 1;
  require(std::isfinite(scale.amount), "the amount must be finite but got ", scale.amount);
  require(scale.length >= least, "the length must be at least ", least, " but got ", scale.length);
  require(scale.first == 0 || scale.first == 1, "first must be 0 or 1 but got ", scale.first);
}

double query_factor(const QueryScale& scale, std::uint64_t n) {
  const auto whole = static_cast<std::uint64_t>(scale.length);
  const auto position = static_cast<double>(n), length = static_cast<double>(scale.length);
  switch (scale.form) {
    case QueryForm::steps:
      return 1 + scale.amount * std::log1p(static_cast<double>(n / whole));
    case QueryForm::log:
      return n <= whole ? 1 : 1 + scale.amount * std::log(position / length);
    case QueryForm::power:
      return std::pow(1 + position / length, scale.amount);
    case QueryForm::ratio:
      return n <= whole ? 1 : std::log(position) / std::log(length);
    case QueryForm::none:
    case QueryForm::learned:
      break;
  }
  return 1;
}

}  // namespace

const char* name(QueryForm form) noexcept { return detail::name_in(query_forms, form); }

std::string formula(const QueryScale& scale) {
  const std::string n = scale.first == 0 ? "p" : "p + 1", grouped = scale.first == 0 ? n : "(" + n + ")";
  const std::string amount = detail::spelled(scale.amount), length = std::to_string(scale.length);
  const std::string one_and = scale.amount < 0 ? "1 - " + detail::spelled(-scale.amount) : "1 + " + amount;
  switch (scale.form) {
    case QueryForm::steps:
      return one_and + " ln(1 + floor(" + grouped + " / " + length + "))";
    case QueryForm::log:
      return one_and + " ln(max(1, " + grouped + " / " + length + "))";
    case QueryForm::power:
      return "(1 + " + grouped + " / " + length + ")^" + amount;
    case QueryForm::ratio:
      return "ln(max(" + n + ", " + length + ")) / ln(" + length + ")";
    case QueryForm::learned:
      return "scale ln(p + 1) + bias of each head, in the checkpoint";
    case QueryForm::none:
      break;
  }
  return "1";
}

std::vector<float> query_scale(const QueryScale& scale, std::span<const std::int64_t> positions) {
  check_query_scale(scale);
  std::vector<float> factors;
  factors.reserve(positions.size());
  for (const std::int64_t p : positions) {
    const std::uint64_t n = static_cast<std::uint64_t>(p) + static_cast<std::uint64_t>(scale.first);
    factors.push_back(p < 0 ? 1 : static_cast<float>(query_factor(scale, n)));
    if (!std::isfinite(factors.back()))
      fail(Code::VALUE, "query_scale", "the factor must be finite but is not at position ", p);
  }
  return factors;
}

}  // namespace rotary
