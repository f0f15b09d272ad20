// Several tensors: reads them from two files, chooses their rope and one layout for a file, and makes one answer.
#include <algorithm>
#include <map>
#include <tuple>

#include "examination.h"
#include "subject/names.h"
#include "tensors/formats.h"
#include "text/paths.h"
#include "values/fail.h"

namespace rotary::diagnose {

namespace {

const TensorInfo* find(const std::vector<TensorInfo>& infos, const std::string& name) {
  const auto found = std::ranges::find(infos, name, &TensorInfo::name);
  return found == infos.end() ? nullptr : &*found;
}

// with_value: also v, which is not rotated.
std::vector<std::string> common_names(const std::vector<TensorInfo>& before, const std::vector<TensorInfo>& after,
                                      bool with_value) {
  std::vector<std::string> names;
  for (const char* name : {"q", "k", "v"}) {
    const TensorInfo *one = find(before, name), *other = find(after, name);
    if (one == nullptr || other == nullptr) continue;
    if (*name != 'v' || (with_value && !names.empty() && one->shape == other->shape)) names.emplace_back(name);
  }
  if (!names.empty()) return names;
  for (const TensorInfo& info : before) {
    if (is_float(info.type) && info.shape.size() > 1 && find(after, info.name) != nullptr) names.push_back(info.name);
  }
  const auto is_other = [](const std::string& name) {
    const Role role = tools::role_of(name);
    return !tools::is_q_or_k(role) && role != Role::v;
  };
  if (!std::ranges::all_of(names, is_other)) std::erase_if(names, is_other);  // beside q and k
  std::ranges::stable_sort(names, {}, tools::layer_of);
  return names;
}

std::string names_of(const std::vector<TensorInfo>& infos) {
  std::string text;
  for (const TensorInfo& info : infos) text += (text.empty() ? "" : ", ") + info.name;
  return text.empty() ? "none" : text;
}

bool is_unnamed(const TensorSource& source) { return source.infos.size() == 1 && source.infos.front().name.empty(); }

}  // namespace

std::vector<TensorPair> read_pairs(const std::string& operation, const TensorSource& first, const TensorSource& second,
                                   const std::vector<std::string>& names) {
  std::vector<TensorPair> pairs;
  const auto add = [&](const std::string& name) {
    const auto read = [&](const TensorSource& from) { return from.read(is_unnamed(from) ? "" : name); };
    pairs.push_back({name, read(first), read(second)});
    pairs.back().before.name = pairs.back().after.name = name;
  };
  if (is_unnamed(first) || is_unnamed(second)) {
    const TensorSource& named = is_unnamed(first) ? second : first;
    if (names.empty() && named.infos.size() != 1) {
      fail(Code::TENSOR, operation, "--tensor must name one of ", names_of(named.infos),
           " beside an .npy but got none");
    }
    if (names.size() > 1)
      fail(Code::TENSOR, operation, "--tensor must name one tensor beside an .npy but got ", files::listed(names));
    add(names.empty() ? named.infos.front().name : names.front());
    return pairs;
  }
  const std::vector<std::string> chosen =
      names.empty() ? common_names(first.infos, second.infos, operation == "check") : names;
  if (chosen.empty()) {
    fail(Code::TENSOR, operation, "before and after must have tensors of the same names but '", first.name, "' holds ",
         names_of(first.infos), " and '", second.name, "' holds ", names_of(second.infos),
         ": rename the tensors of one");
  }
  for (const std::string& name : chosen) add(name);
  for (const auto& [source, other] : {std::pair(&first, &second), {&second, &first}}) {
    for (const TensorInfo& info : source->infos) {
      const bool is_q_or_k = info.name == "q" || info.name == "k" ||
                             (tools::layer_of(info.name) && tools::is_q_or_k(tools::role_of(info.name)));
      if (!is_q_or_k || !names.empty() || operation != "check" || find(other->infos, info.name) != nullptr) continue;
      pairs.push_back({info.name, source->read(info.name), {}});  // the answer says that it stands in one file only
    }
  }
  return pairs;
}

std::vector<TensorPair> read_pairs(const std::string& operation, const std::string& before, const std::string& after,
                                   const std::vector<std::string>& names) {
  if (before == "-" && after == "-") {
    fail(Code::VALUE, operation, "standard input holds one file: - can stand for one of the two");
  }
  files::InputTensors first(files::path_of(before)), second(files::path_of(after));
  const auto source = [](files::InputTensors& file) {
    return TensorSource{file.name(), file.infos(), [&file](const std::string& name) { return file.read(name); }};
  };
  return read_pairs(operation, source(first), source(second), names);
}

void expect_whole(const std::string& operation, const PositionSet& set, int axes) {
  const std::size_t held = set.reals.empty() ? set.integers.size() : set.reals.size();
  const double asked = static_cast<double>(set.axes) * set.batch * static_cast<double>(set.tokens);
  if (static_cast<double>(held) != asked || (set.axes != 1 && set.axes < axes))
    fail(Code::POSITION, operation, "positions must be [axes, batch, tokens], of one axis or the rope's ", axes,
         ", but got ", held, " of ", set.axes, " axes, batch ", set.batch, " and ", set.tokens, " tokens");
}

namespace {

bool are_alike(const ModelRope& one, const ModelRope& other, std::optional<std::int64_t> length) {
  const auto turns_of = [](const ModelRope& of, std::int64_t at) {
    const Frequencies f = frequencies(of.rope, at);
    return std::tuple(of.first, of.coordinates, f.inv_freq, f.attention_factor, f.axis, f.pairing, f.clockwise,
                      f.head_rows, f.summed_axes, f.phase, f.xpos);
  };
  return turns_of(one, length.value_or(1)) == turns_of(other, length.value_or(1)) &&
         turns_of(one, length.value_or(1 << 20)) == turns_of(other, length.value_or(1 << 20));
}

// Ropes of an indexer or of the rows of MLA's cache, by the attention's rope and the width of the tensor. It is a map
// because subjects point to its values.
using OtherHeads = std::map<std::pair<const ModelRope*, std::int64_t>, ModelRope>;

TensorInfo info_of(const TensorPair& pair) {
  TensorInfo info = pair.before;
  info.name = pair.name;
  return info;
}

// The subject with the role that the tensor's name shows, and backward if it is an output that the model rotates back.
Subject of_tensor(Subject subject, const TensorPair& pair) {
  subject.role = tools::role_of(pair.name);
  subject.backward = subject.backward || (subject.turns_back && tools::names_output(pair.name));
  return subject;
}

// The rope of a row of MLA's cache, which is the latent and then the one rotated key, if the tensor is as wide.
std::optional<ModelRope> rope_of_cached_row(const Model& model, const TensorInfo& tensor, const ModelRope& attention) {
  const int latent = part_of(model, attention.part).latent, width = latent + attention.rope.rotary_dim;
  const bool is_row = tools::last_dimension(tensor) == width && tools::role_of(tensor.name) != Role::q;
  if (latent == 0 || attention.first == 0 || !is_row) return std::nullopt;
  ModelRope used = attention;
  used.heads = used.kv_heads = 1;
  used.first = latent;
  used.rope.head_dim = width;
  return used;
}

// The factor by which the model multiplies the queries of the subject's layer, where it is the same for all its layers
// or the layer is known.
QueryScale scale_of(const Model& model, const tools::Subject& subject) {
  for (const ModelQueryScale& one : model.query_scales) {
    const bool has_layer =
        subject.layer ? std::ranges::find(one.layers, *subject.layer) != one.layers.end() : is_everywhere(model, one);
    if (one.part == subject.used->part && has_layer && one.scale.form != QueryForm::learned) return one.scale;
  }
  return {};
}

// The rope that the model asks for one tensor; if nothing chooses one, all ropes that the tensor fits.
tools::Subject question_of(const Request& request, const TensorPair& pair, OtherHeads& others) {
  tools::Subject one{.length = request.length, .layout = request.layout};
  if (!request.model) return one;
  const Model& model = *request.model;
  const TensorInfo tensor = info_of(pair);
  one = tools::subject_of(model, request, &tensor);
  std::vector<const ModelRope*> rivals;  // one for each set of blocks of the same heads
  for (const ModelRope* rival : one.rivals) {
    const std::vector<const ModelRope*> blocks = tools::blocks_of(model, *rival);
    if (std::ranges::find_first_of(rivals, blocks) == rivals.end()) rivals.push_back(rival);
  }
  one.rivals = std::move(rivals);
  if (!one.rivals.empty()) one.used = one.rivals.front();
  one.turns = one.turns && one.role != Role::v;
  if (!one.turns) one.rivals.clear();
  one.scale = scale_of(model, one);
  const auto take_other_heads = [&](const ModelRope*& used) {
    std::optional<ModelRope> own = rope_of_cached_row(model, tensor, *used);
    if (!own) own = tools::rope_of_indexer(model, tensor, *used);
    if (own) used = &others.try_emplace({used, tensor.shape.back()}, *own).first->second;
  };
  if (one.turns) {
    take_other_heads(one.used);
    std::ranges::for_each(one.rivals, take_other_heads);
  }
  return one;
}

// The subject by one of the question's ropes. Throws if the positions do not fit the rope, or if the positions 0, 1, 2,
// ... are needed and the rope has coordinates.
Subject subject_by(const Request& request, const tools::Subject& question, const ModelRope* used,
                   bool needs_positions) {
  Subject one{question};
  one.backward = request.backward;
  one.multiplied = request.query_scale || !question.turns;
  const auto positions_in = [&](const std::optional<PositionSet>& given) -> std::optional<PositionSet> {
    if (given && !given->spec) expect_whole(request.operation, *given, request.model ? used->rope.axes() : 1);
    if (!request.model) return given && given->spec ? parse_positions(*given->spec, 1) : given;
    Choice choice = request;
    choice.positions = given;
    if (!given && !needs_positions) return std::nullopt;
    const PositionSet set = positions_of(request.operation, choice, *request.model, *used);
    return given ? std::optional(set) : std::nullopt;
  };
  one.positions = positions_in(request.positions);
  if (request.from) one.from = positions_in(request.from);
  if (!request.model) return one;
  one.used = used;
  const ModelPart& part = part_of(*request.model, used->part);
  one.context = part.context;
  one.norm_behind = part.norm_behind;
  one.turns_back = part.turns_back;
  one.beside = tools::blocks_of(*request.model, *used);
  std::erase(one.beside, used);
  one.places_unknown = !request.positions && !needs_positions && used->coordinates && !request.same_on_every_axis;
  return one;
}

// A subject for each of the question's ropes that the positions fit; if positions are given, then for each rope of
// another part that has a layer of that number. Throws as subject_by if the positions fit no rope.
std::vector<Subject> subjects_of(const Request& request, const tools::Subject& question, bool needs_positions) {
  std::vector<Subject> subjects;
  std::optional<Error> first;
  const auto add = [&](const ModelRope* used, bool last_resort) {
    try {
      subjects.push_back(subject_by(request, question, used, needs_positions));
      subjects.back().last_resort = last_resort;
    } catch (const Error& error) {  // positions of another rope's axes
      if (!first) first = error;
    }
  };
  for (const ModelRope* used : question.rivals.empty() ? std::vector{question.used} : question.rivals) add(used, false);
  const bool has_parts = request.model && request.positions && question.layer && question.turns;
  for (std::size_t i = 0; has_parts && !request.names_rope() && i < request.model->ropes.size(); ++i) {
    const ModelRope& other = request.model->ropes[i];
    const bool lists = std::ranges::find(other.layers, *question.layer) != other.layers.end();
    if (lists && other.part != question.used->part) add(&other, true);
  }
  if (subjects.empty()) throw *first;
  return subjects;
}

// "rope 1 of 2", "ropes 2 and 3 of 4"; "" where there is no other.
std::string rope_text(const Request& request, const ModelRope* used) {
  if (used == nullptr) return "";
  const std::vector<ModelRope>& ropes = request.model->ropes;
  const auto number_of = [&](const ModelRope* one) { return one - ropes.data(); };
  const auto is_own = [&](const ModelRope& one) { return &one == used; };
  if (std::ranges::none_of(ropes, is_own)) return used->first > 0 ? "the rope of cached rows" : "the indexer's rope";
  std::vector<std::string> numbers;
  for (const ModelRope* block : tools::blocks_of(*request.model, *used))
    numbers.push_back(std::to_string(number_of(block)));
  if (request.rope || numbers.size() == ropes.size()) return "";
  return (numbers.size() == 1 ? "rope " : "ropes ") + files::listed(numbers, " and ") + " of " +
         std::to_string(ropes.size());
}

// ---- by one rope -------------------------------------------------------------------------------

// One call of diagnose or check.
struct Call {
  const Request& request;
  bool checks = false;  // else it diagnoses
  bool open = false;    // for some tensor several ropes are possible and nothing chooses one

  NamedCheck examine(const TensorPair& pair, const Subject& one) const {
    if (!checks && one.turns) return {pair.name, diagnose_pair(pair.before, pair.after, one)};
    if (checks && pair.after.shape.empty()) {
      NamedCheck alone{.name = pair.name, .outcome = Outcome::undecided};
      alone.diagnosis.found = {finding(Cause::one_file)};
      return alone;
    }
    if (checks && request.rotated) return judge_between(pair, one, request.tolerance);
    if (!one.turns) return judge_still(pair, one, checks ? request.tolerance : std::nullopt);
    std::vector<const ModelRope*> others;
    for (const ModelRope& other : request.model->ropes) {
      if (tools::fits_width(pair.before, other) && !are_alike(other, *one.used, request.length))
        others.push_back(&other);
    }
    return judge(pair, one, request.tolerance, others);
  }

  // Sets the outcome and the remarks.
  void finish(NamedCheck& one, bool is_open) {
    open = open || is_open;
    if (!checks) return;
    if (one.outcome == Outcome::differs && one.diagnosis.verdict == Verdict::cannot_tell)
      one.diagnosis.verdict = Verdict::elements;
    if (request.rotated || one.outcome != Outcome::equal) return;
    const bool still = std::ranges::any_of(request.model->ropes, [&](const ModelRope& rope) {
      return !layers_without_rope(*request.model, rope.part).empty();
    });
    if (one.checked.moves && still && !one.layer && !request.rope) one.remarks.push_back(finding(Cause::open_layers));
    if (!is_open) return;
    one.outcome = Outcome::undecided;
    one.remarks = {finding(Cause::open_rope, {{"rope", one.rope}})};
  }
};

// Examines each pair. Tensors of a file have one layout: those found in another one are examined again in it.
std::vector<NamedCheck> for_each_pair(const Call& call, const std::vector<const TensorPair*>& pairs,
                                      const Subject& subject) {
  std::vector<NamedCheck> results;
  std::vector<std::string> layouts;
  Subject of_file = subject;
  std::optional<ModelRope> shard;
  std::vector<TensorInfo> tensors;
  for (const TensorPair* pair : pairs) tensors.push_back(info_of(*pair));
  if (subject.used != nullptr) of_file.used = &shard.emplace(tools::shard_of(*subject.used, tensors));
  for (const TensorPair* pair : pairs) {
    results.push_back(call.examine(*pair, of_tensor(of_file, *pair)));
    layouts.push_back(results.back().diagnosis.facts.layout);
    if (results.back().checked.equal || layouts.back().empty()) layouts.back() = results.back().checked.layout;
  }
  const std::string settled = tools::common_layout(tensors, layouts, subject);
  // A tensor whose shape leaves the layout open has the layout of one that shows it.
  const auto tells = std::ranges::find_if(
      results, [](const NamedCheck& one) { return one.outcome == Outcome::equal && one.remarks.empty(); });
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const bool as_another = settled.empty() && tells != results.end() && results[i].outcome == Outcome::undecided &&
                            layouts[i] == tells->checked.layout;
    const bool otherwise = !settled.empty() && !layouts[i].empty() && layouts[i] != settled;
    if (!as_another && !otherwise) continue;
    Subject again = of_tensor(subject, *pairs[i]);
    again.layout_of_heads = otherwise ? settled : layouts[i];
    results[i] = call.examine(*pairs[i], again);
  }
  return results;
}

// How wrong the tensors are by this rope, to compare ropes. A fault of base or scaling counts more than another one,
// because the rope is then likely not the one meant.
int wrongness(const std::vector<NamedCheck>& tensors) {
  int sum = 0;
  for (const NamedCheck& one : tensors) {
    sum += one.outcome == Outcome::differs ? 1 : 0;
    const Verdict verdict = one.diagnosis.verdict;
    if (verdict == Verdict::as_configured) continue;
    const bool base = verdict == Verdict::base, scaling = verdict == Verdict::scaling;
    sum += 2 * static_cast<int>(count_faults(one.diagnosis.found)) + (base ? 4 : scaling ? 2 : 0);
    if (verdict == Verdict::cannot_tell || verdict == Verdict::elements) sum += 6;
    if (verdict == Verdict::noise) sum += 1;
  }
  return sum;
}

// The subject by whose rope the tensors are least wrong, with its answers in `best`. Ropes whose positions do not fit
// the tensors are left out; throws if none fits.
const Subject& best_subject(const Call& call, const std::vector<const TensorPair*>& pairs,
                            const std::vector<Subject>& subjects, std::vector<NamedCheck>& best) {
  const Subject* by = nullptr;
  std::optional<Error> first;
  for (const Subject& one : subjects) {
    if (by != nullptr && (one.last_resort || wrongness(best) == 0)) break;
    try {
      std::vector<NamedCheck> other = for_each_pair(call, pairs, one);
      if (by != nullptr && wrongness(other) >= wrongness(best)) continue;
      best = std::move(other);
      by = &one;
    } catch (const Error& error) {
      if (!first) first = error;
    }
  }
  if (by == nullptr) throw *first;
  return *by;
}

// The other blocks of the same heads, each turned by a rope of its own (Allegro, Gemma 4's tower): for each tensor the
// block that differs most is the answer. Where one block was chosen, others may have stayed as they were.
void add_blocks(const Call& call, const std::vector<const TensorPair*>& pairs, const tools::Subject& question,
                const Subject& first, std::vector<NamedCheck>& worst) {
  const auto badness = [](const NamedCheck& one) {
    return std::tuple(one.outcome, one.diagnosis.verdict != Verdict::as_configured, one.checked.error);
  };
  const auto name_block = [&](NamedCheck& one, const ModelRope& used) {
    std::vector<Finding>& found = one.diagnosis.found;
    if (one.diagnosis.verdict == Verdict::as_configured)
      return found.front().numbers.push_back({"blocks", number(first.beside.size() + 1)});
    for (int element = 0; element < used.rope.rotary_dim; ++element)
      found.front().where.elements.push_back(used.first + element);
  };
  if (call.request.rotated || first.beside.empty()) return;
  for (NamedCheck& one : worst) name_block(one, *first.used);
  for (const ModelRope* used : first.beside) {
    Subject block = subject_by(call.request, question, used, call.checks);
    block.executor = first.executor;
    std::vector<NamedCheck> found = for_each_pair(call, pairs, block);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (call.request.rope && found[i].diagnosis.verdict == Verdict::not_rotated) {
        const int last = used->first + used->rope.rotary_dim - 1;
        worst[i].remarks.push_back(
            finding(Cause::still_block, {{"first", number(used->first)}, {"last", number(last)}}));
        continue;
      }
      name_block(found[i], *used);
      if (badness(worst[i]) < badness(found[i])) worst[i] = std::move(found[i]);
    }
  }
}

// Adds a fault that other layers of the model or other tensors of the file explain. by: the subject by which the tensor
// was examined.
void find_layers(const Request& request, const tools::Subject& question, const Subject& by,
                 const std::vector<TensorPair>& pairs, const TensorPair& pair, NamedCheck& one) {
  const Verdict verdict = one.diagnosis.verdict;
  if (!request.model || request.rotated || verdict == Verdict::as_configured) return;
  if (question.rivals.size() > 1 || !question.turns || pair.after.shape.empty()) return;
  if (!one.layer && verdict == Verdict::not_rotated && !request.rope &&
      !layers_without_rope(*request.model, question.used->part).empty()) {
    return one.diagnosis.found.push_back(finding(Cause::open_layers));
  }
  const std::vector<const ModelRope*> own = tools::blocks_of(*request.model, *question.used);
  for (const ModelRope& other : request.model->ropes) {
    const bool is_own = std::ranges::find(own, &other) != own.end();
    if (!one.layer || is_own || !tools::fits_width(pair.before, other)) continue;
    if (are_alike(other, *question.used, request.length)) continue;
    try {
      const Subject subject = of_tensor(subject_by(request, question, &other, false), pair);
      if (diagnose_pair(pair.before, pair.after, subject).verdict != Verdict::as_configured) continue;
      return one.diagnosis.found.push_back(
          finding(Cause::rope_of_other_layers, {{"rope", rope_text(request, &other)}}));
    } catch (const Error&) {  // the positions are those of another rope's axes
    }
  }
  if (verdict != Verdict::cannot_tell || pairs.size() > 64) return;
  const Subject subject = of_tensor(by, pair);
  for (const TensorPair& other : pairs) {
    if (&other == &pair || other.before.shape != pair.before.shape) continue;
    const Sample sample = sample_as_given(other.before, pair.after, subject);
    if (!compare(sample, plausible_readings(sample, subject).front(), subject, {}).checked.equal) continue;
    one.diagnosis = {Verdict::layout, {finding(Cause::another_tensor, {{"other", other.name}})}};
    return;
  }
}

// Answers for each pair by the rope of its layer; pairs without a layer, by the rope by which they are least wrong.
std::vector<NamedCheck> answers(Call& call, const std::vector<TensorPair>& pairs) {
  const Request& request = call.request;
  if (pairs.empty()) fail(Code::TENSOR, request.operation, "there must be a pair of tensors at least but got none");
  std::vector<NamedCheck> results(pairs.size());
  std::int64_t done = 0;
  OtherHeads others;
  std::vector<tools::Subject> questions;  // one for each tensor
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    questions.push_back(question_of(request, pairs[i], others));
    questions.back().tensors = {i};
  }
  for (const tools::Subject& question : tools::merged(questions)) {
    std::vector<Subject> subjects = subjects_of(request, question, call.checks);
    std::int64_t step = done;  // this question's, whichever copy of a subject counts it
    done += 4 * std::ssize(question.tensors);
    for (Subject& one : subjects) {
      one.executor = request.executor;
      one.step = [&, total = 4 * std::ssize(pairs)] {
        if (request.progress) request.progress(step = std::min(step + 1, done), total);
      };
    }
    std::vector<const TensorPair*> asked;
    for (const std::size_t i : question.tensors) asked.push_back(&pairs[i]);
    std::vector<NamedCheck> best;
    const Subject* by = &subjects[0];
    if (!question.turns) {
      for (const std::size_t i : question.tensors) {
        Subject still = of_tensor(subjects[0], pairs[i]);
        still.layer = questions[i].layer;
        best.push_back(call.examine(pairs[i], still));
      }
    } else {
      by = &best_subject(call, asked, subjects, best);
      add_blocks(call, asked, question, *by, best);
    }
    const bool open = question.turns && std::ranges::any_of(subjects, [&](const Subject& other) {
                        return !other.last_resort && !by->last_resort && other.used != by->used &&
                               !are_alike(*other.used, *by->used, request.length);
                      });
    for (std::size_t i = 0; i < best.size(); ++i) {
      const std::size_t at = question.tensors[i];
      best[i].layer = questions[at].layer;
      best[i].rope = !question.turns ? "" : rope_text(request, by->used);
      find_layers(request, question, *by, pairs, pairs[at], best[i]);
      call.finish(best[i], open);
      results[at] = std::move(best[i]);
    }
  }
  return results;
}

}  // namespace

Diagnosed diagnose(const Request& request, const std::vector<TensorPair>& pairs) {
  Call call{request};
  Diagnosed result{answers(call, pairs), {}};
  std::ranges::for_each(result.tensors, say);
  result.all = combine(result.tensors);
  const std::string& rope = result.tensors.front().rope;
  const bool one_rope = std::ranges::all_of(result.tensors, [&](const auto& one) { return one.rope == rope; });
  if (!rope.empty() && one_rope) {
    result.all.sentence += " (by " + rope + (call.open ? ", which fits best; --rope names one)" : ")");
  }
  return result;
}

CheckResult check(const Request& request, const std::vector<TensorPair>& pairs) {
  if (const double allowed = request.tolerance.value_or(0); !(allowed >= 0 && allowed <= 1e300))
    fail(Code::VALUE, "check", "tolerance must be from 0 to 1e300 but got ", allowed);
  CheckResult result;
  for (const TensorPair& pair : pairs) {
    if (!request.rotated && tools::role_of(pair.name) == Role::qkv)
      fail(Code::TENSOR, "check", "q, k and v must be tensors of their own but got '", pair.name, "'",
           ": q, k, v = numpy.split(x, [Q, Q + K], axis=-1), where Q and K are their widths; then save each");
  }
  Call call{request, true};
  result.tensors = answers(call, pairs);
  if (request.rotated) settle_orders(result.tensors);
  std::ranges::for_each(result.tensors, say);
  result.all = combine(result.tensors, request.rotated ? "the same in both files" : as_asked);
  result.power = common_power(result.tensors);
  return result;
}

}  // namespace rotary::diagnose
