// Several tensors: which rope is meant, one layout for tensors of a file, one answer.
#include <algorithm>

#include "examination.h"
#include "files/tensors/element_types.h"
#include "files/tensors/input.h"
#include "files/text/paths.h"

namespace rotary::diagnose {

namespace {

const TensorInfo* find(const std::vector<TensorInfo>& infos, const std::string& name) {
  const auto found =
      std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& info) { return info.name == name; });
  return found == infos.end() ? nullptr : &*found;
}

std::vector<std::string> common_names(const std::vector<TensorInfo>& before, const std::vector<TensorInfo>& after) {
  std::vector<std::string> names;
  for (const char* name : {"q", "k"}) {
    if (find(before, name) != nullptr && find(after, name) != nullptr) names.emplace_back(name);
  }
  if (!names.empty()) return names;
  for (const TensorInfo& info : before) {
    if (files::is_float(info.type) && info.shape.size() > 1 && find(after, info.name) != nullptr)
      names.push_back(info.name);
  }
  return names;
}

std::string names_of(const std::vector<TensorInfo>& infos) {
  std::string text;
  for (const TensorInfo& info : infos) text += (text.empty() ? "" : ", ") + info.name;
  return text.empty() ? "none" : text;
}

// The subjects that can be meant: that of the rope that the request names; else those of the ropes of heads as wide as
// the tensors' whose positions fit, or of the first rope. Without a model one of no rope.
std::vector<Subject> subjects_of(const Request& request, const std::vector<TensorPair>& pairs, bool needs_positions) {
  Subject plain;
  plain.layout = request.layout;
  plain.length = request.length;
  if (!request.model) {
    plain.positions = request.positions.set;
    if (request.positions.spec) plain.positions = parse_positions(*request.positions.spec, 1);
    return {plain};
  }
  const Model& model = *request.model;
  const auto meant = [&](const ModelRope& used) {
    Subject one = plain;
    one.used = &used;
    if (request.positions.given() || needs_positions) {  // throws where 0, 1, 2, ... are no positions
      const PositionSet set = positions_of(request.operation, request.positions, model, used);
      if (request.positions.given()) one.positions = set;
    } else {
      one.places_unknown = used.coordinates && !request.positions.same_on_every_axis;
    }
    return one;
  };
  std::vector<Subject> subjects;
  if (!request.rope && model.ropes.size() != 1) {
    std::optional<Error> first;
    for (const ModelRope& used : model.ropes) {
      if (!tools::fits_width(pairs.front().before, used)) continue;
      try {
        subjects.push_back(meant(used));
      } catch (const Error& error) {  // positions of another rope's axes
        if (!first) first = error;
      }
    }
    if (subjects.empty() && first) throw *first;
  }
  if (subjects.empty()) subjects.push_back(meant(tools::chosen_rope(model, request.rope, request.config)));
  return subjects;
}

// "rope 1 of 2".
std::string rope_text(const Request& request, const Subject& subject) {
  if (subject.used == nullptr || request.rope || request.model->ropes.size() == 1) return "";
  return "rope " + std::to_string(subject.used - request.model->ropes.data()) + " of " +
         std::to_string(request.model->ropes.size());
}

const std::string& layout_of(const NamedDiagnosis& one) { return one.diagnosis.facts.layout; }
const std::string& layout_of(const NamedCheck& one) { return one.checked.layout; }

Subject of_tensor(Subject subject, const TensorPair& pair) {
  subject.role = tools::role_of(pair.name);
  return subject;
}

// The layout in which the rope's heads fit the most tensors, of those that were found; empty if there is none best, or
// one alone was found.
std::string settled_layout(const std::vector<TensorPair>& pairs, const std::vector<std::string>& found,
                           const Subject& subject) {
  if (subject.used == nullptr) return "";
  std::string best;
  int most = 0;
  bool alone = true, tied = false;
  for (const std::string& word : found) {
    if (word.empty() || word == best) continue;
    alone = alone && word == found.front();
    int fits = 0;
    for (const TensorPair& pair : pairs) {
      for (const Reading& reading : tools::readings_of(pair.before.shape)) {
        if (reading.word == word && of_tensor(subject, pair).plausibility(reading.layout) == 2) ++fits;
      }
    }
    tied = fits == most;
    if (fits <= most) continue;
    most = fits;
    best = word;
  }
  return alone || tied ? "" : best;
}

// ---- by one rope -------------------------------------------------------------------------------

// examine(pair, subject) of each pair; tensors of a file have one layout: of those found in another one again, with the
// settled layout in subject.*layout.
template <class One, class Examine>
std::vector<One> for_each_pair(const Request& request, const std::vector<TensorPair>& pairs, const Subject& subject,
                               std::string Subject::*layout, Examine examine) {
  std::vector<One> results;
  std::vector<std::string> layouts;
  for (const TensorPair& pair : pairs) {
    if (request.progress) request.progress(std::ssize(results), std::ssize(pairs));
    results.push_back({pair.name, examine(pair, of_tensor(subject, pair))});
    layouts.push_back(layout_of(results.back()));
  }
  const std::string settled = settled_layout(pairs, layouts, subject);
  for (std::size_t i = 0; i < pairs.size() && !settled.empty(); ++i) {
    if (layouts[i] == settled || layouts[i].empty()) continue;
    Subject again = of_tensor(subject, pairs[i]);
    again.*layout = settled;
    results[i] = {pairs[i].name, examine(pairs[i], again)};
  }
  return results;
}

Diagnosed diagnose_by(const Request& request, const std::vector<TensorPair>& pairs, const Subject& subject) {
  Diagnosed result;
  result.tensors = for_each_pair<NamedDiagnosis>(
      request, pairs, subject, &Subject::layout_of_heads,
      [](const TensorPair& pair, const Subject& one) { return diagnose(pair.before, pair.after, one); });
  result.all = combine(result.tensors);
  return result;
}

std::vector<NamedCheck> check_by(const Request& request, const std::vector<TensorPair>& pairs, const Subject& subject) {
  return for_each_pair<NamedCheck>(request, pairs, subject, &Subject::layout,
                                   [&](const TensorPair& pair, const Subject& one) {
                                     return check(pair.before, pair.after, one, request.tolerance);
                                   });
}

// Of a diagnosis by a rope that may not be the one meant: another base is the last thing to believe.
int wrongness(const Diagnosed& diagnosed) {
  int sum = 0;
  for (const NamedDiagnosis& one : diagnosed.tensors) {
    const Verdict verdict = one.diagnosis.verdict;
    if (verdict == Verdict::as_configured) continue;
    const bool base = verdict == Verdict::base, scaling = verdict == Verdict::scaling;
    sum += 2 * static_cast<int>(one.diagnosis.findings.size()) + (base ? 4 : scaling ? 2 : 0);
    if (verdict == Verdict::cannot_tell) sum += 6;
  }
  return sum;
}

// By the rope of which the least is wrong, where several can be meant.
Diagnosed diagnose_best(const Request& request, const std::vector<TensorPair>& pairs,
                        const std::vector<Subject>& subjects) {
  Diagnosed best = diagnose_by(request, pairs, subjects[0]);
  const Subject* chosen = &subjects[0];
  for (std::size_t rope = 1; rope < subjects.size() && wrongness(best) > 0; ++rope) {
    Diagnosed other = diagnose_by(request, pairs, subjects[rope]);
    if (wrongness(other) >= wrongness(best)) continue;
    best = std::move(other);
    chosen = &subjects[rope];
  }
  if (const std::string text = rope_text(request, *chosen); !text.empty()) {
    best.all.sentence += " (by " + text + (subjects.size() > 1 ? ", which fits best; --rope names one)" : ")");
  }
  return best;
}

// ---- one diagnosis of several tensors -----------------------------------------------------------

int weight(Verdict verdict) {
  if (verdict == Verdict::as_configured) return 0;
  return verdict == Verdict::cannot_tell ? 1 : 2;
}

// "q", "q and k", "q, k and v".
std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text;
}

// One sentence for tensors of one fault, with the residuals of the first.
std::string sentence_of(const std::vector<NamedDiagnosis>& tensors, std::size_t first, std::vector<bool>& said) {
  said[first] = true;
  std::vector<std::string> names{tensors[first].name};
  for (std::size_t i = first + 1; i < tensors.size() && !names[0].empty(); ++i) {
    if (said[i] || tensors[i].name.empty() || tensors[i].diagnosis.fault != tensors[first].diagnosis.fault) continue;
    names.push_back(tensors[i].name);
    said[i] = true;
  }
  if (names.size() < 2) return tensors[first].diagnosis.sentence;
  const std::string rest = tensors[first].diagnosis.sentence.substr(tensors[first].name.size());
  return list_of(names) + (rest.starts_with(" is ") ? " are " + rest.substr(4) : rest);
}

bool all_equal(const std::vector<NamedCheck>& checks) {
  return std::all_of(checks.begin(), checks.end(), [](const NamedCheck& one) { return one.checked.equal; });
}

}  // namespace

std::vector<TensorPair> read_pairs(const std::string& operation, const std::string& before, const std::string& after,
                                   const std::vector<std::string>& names) {
  if (before == "-" && after == "-") {
    throw Error(Code::VALUE, "[" + operation + "] standard input holds one file: - can stand for one of the two");
  }
  files::InputTensors first(files::path_of(before)), second(files::path_of(after));
  std::vector<TensorPair> pairs;
  const auto add = [&](const std::string& name) {
    pairs.push_back({name, first.read(name), second.read(name)});
    pairs.back().before.name = pairs.back().after.name = name;
  };
  if (first.format() == files::Format::npy || second.format() == files::Format::npy) {
    const files::InputTensors& named = first.format() == files::Format::npy ? second : first;
    if (names.empty() && named.infos().size() != 1) {
      throw Error(Code::TENSOR, "[" + operation + "] --tensor must name one of " + names_of(named.infos()) +
                                    " beside an .npy but got none");
    }
    add(names.empty() ? named.infos().front().name : names.front());
    return pairs;
  }
  const std::vector<std::string> chosen = names.empty() ? common_names(first.infos(), second.infos()) : names;
  if (chosen.empty()) {
    throw Error(Code::TENSOR, "[" + operation + "] the files must have a tensor of one name but got " +
                                  names_of(first.infos()) + " in '" + first.name() + "' and " +
                                  names_of(second.infos()) + " in '" + second.name() + "'");
  }
  for (const std::string& name : chosen) add(name);
  return pairs;
}

Diagnosis combine(const std::vector<NamedDiagnosis>& tensors) {
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
    result.sentence += ". " + list_of(right) + (right.size() == 1 ? " is" : " are") + " as the config asks";
  }
  return result;
}

Diagnosed diagnose(const Request& request, const std::vector<TensorPair>& pairs) {
  const std::vector<Subject> subjects = subjects_of(request, pairs, false);
  if (!request.scores) return diagnose_best(request, pairs, subjects);
  Diagnosed result;
  for (const TensorPair& pair : pairs) {
    result.tensors.push_back({pair.name, diagnose_scores(pair.before, pair.after, of_tensor(subjects[0], pair))});
  }
  result.all = combine(result.tensors);
  return result;
}

CheckResult check(const Request& request, const std::vector<TensorPair>& pairs) {
  const std::vector<Subject> subjects = subjects_of(request, pairs, true);
  CheckResult result{check_by(request, pairs, subjects[0]), std::nullopt, rope_text(request, subjects[0])};
  for (std::size_t other = 1; other < subjects.size() && !all_equal(result.tensors); ++other) {
    std::vector<NamedCheck> by_other = check_by(request, pairs, subjects[other]);
    if (all_equal(by_other)) result = {std::move(by_other), std::nullopt, rope_text(request, subjects[other])};
  }
  if (!all_equal(result.tensors)) result.diagnosed = diagnose_best(request, pairs, subjects);
  return result;
}

}  // namespace rotary::diagnose
