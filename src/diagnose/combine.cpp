// One diagnosis of several tensors.
#include <algorithm>
#include <regex>

#include "examination.h"

namespace rotary::diagnose {

namespace {

int weight(Verdict verdict) {
  if (verdict == Verdict::as_configured) return 0;
  return verdict == Verdict::noise ? 1 : verdict == Verdict::cannot_tell ? 2 : 3;
}

// "q", "q and k", "q, k and v".
std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text;
}

// What is said of one tensor, said of several: "are rotated ...; and they are multiplied", "their angles".
std::string of_several(std::string said) {
  const std::size_t verb = said.find(" is ");  // also behind the part that it is about
  if (verb < said.find_first_of(":;(")) said.replace(verb, 4, " are ");
  for (const auto& [one, many] : {std::pair{" its ", " their "},
                                  {" it is ", " they are "},
                                  {" it has ", " they have "},
                                  {" it would ", " they would "}}) {
    for (std::size_t at = 0; (at = said.find(one, at)) != std::string::npos; ++at)
      said.replace(at, std::string_view(one).size(), many);
  }
  return said;
}

// One sentence for tensors of one fault, with the residuals of the first.
std::string sentence_of(const std::vector<NamedDiagnosis>& tensors, std::size_t first, std::vector<bool>& said) {
  said[first] = true;
  std::vector<std::string> names{tensors[first].name};
  const std::string fault = fault_of(tensors[first].diagnosis, names[0]);
  for (std::size_t i = first + 1; i < tensors.size() && !names[0].empty(); ++i) {
    if (said[i] || tensors[i].name.empty() || fault_of(tensors[i].diagnosis, tensors[i].name) != fault) continue;
    names.push_back(tensors[i].name);
    said[i] = true;
  }
  if (names.size() < 2) return tensors[first].diagnosis.sentence;
  std::string rest = tensors[first].diagnosis.sentence.substr(tensors[first].name.size());
  const auto has = [&](tools::Role role) { return std::ranges::find(names, role, tools::role_of) != names.end(); };
  const bool both = has(tools::Role::query) && has(tools::Role::key);
  if (const std::size_t at = rest.find(same_scores); both && at != std::string::npos)
    rest.replace(at, same_scores.size(), "both have it, so their scores are the same");
  return list_of(names) + of_several(rest);
}

}  // namespace

std::string fault_of(const Diagnosis& one, const std::string& name) {
  static const std::regex numbers(" \\(residual [^)]*\\)|(, with noise) of [^ ]* rms");
  return std::regex_replace(one.sentence.substr(std::min(name.size(), one.sentence.size())), numbers, "$1");
}

Diagnosis combine(const std::vector<NamedDiagnosis>& tensors, const std::string& as) {
  const auto worst = std::max_element(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return weight(a.diagnosis.verdict) < weight(b.diagnosis.verdict);
  });
  Diagnosis result = worst->diagnosis;
  std::vector<std::string> still, moved, right;
  std::vector<bool> said(tensors.size(), false);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Verdict verdict = tensors[i].diagnosis.verdict;
    (verdict == Verdict::not_rotated ? still : moved).push_back(tensors[i].name);
    if (verdict != Verdict::as_configured) continue;
    right.push_back(tensors[i].name);
    said[i] = weight(result.verdict) > 0;
  }
  const bool some = !still.empty() && !moved.empty();
  if (some) {
    result.verdict = Verdict::some_heads;
    result.sentence = "only " + list_of(moved) + (moved.size() == 1 ? " is" : " are") + " rotated; " + list_of(still) +
                      (still.size() == 1 ? " is" : " are") + " the same before and after";
    for (std::size_t i = 0; i < tensors.size(); ++i)
      said[i] = said[i] || tensors[i].diagnosis.verdict == Verdict::not_rotated;
  } else {
    result.sentence = sentence_of(tensors, static_cast<std::size_t>(worst - tensors.begin()), said);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!said[i]) result.sentence += ". " + sentence_of(tensors, i, said);
  }
  if (weight(result.verdict) > 0 && !right.empty() && !some) {
    result.sentence += ". " + list_of(right) + (right.size() == 1 ? " is " : " are ") + as;
  }
  return result;
}

}  // namespace rotary::diagnose
