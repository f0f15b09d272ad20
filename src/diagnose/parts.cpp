// Rows, heads, ranges of tokens and single elements, each diagnosed for itself.
#include "examination.h"

#include <algorithm>
#include <cmath>

#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

using Some = std::set<std::int64_t>;

constexpr std::int64_t most_listed = 1 << 18;   // elements that differ
constexpr std::size_t most_elements = 1 << 22;  // of more, the first tokens alone are taken apart

Some range(std::int64_t begin, std::int64_t end) {
  Some all;
  while (begin < end) all.insert(all.end(), begin++);
  return all;
}

// Of the whole of which the scene's sample is a part.
Numbers in_whole(const Scene& scene, std::size_t dimension, const Some& some) {
  return scene.sample.in_whole(dimension, {some.begin(), some.end()});
}

// "0-15": neighbours in a sample stand for all that lie between them.
std::string token_ranges(const Scene& scene, const Some& some) {
  const std::vector<std::int64_t>& of = scene.sample.numbers[1];
  std::string text;
  for (auto first = some.begin(); first != some.end();) {
    auto last = first;
    while (std::next(last) != some.end() && *std::next(last) == *last + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(of[static_cast<std::size_t>(*first)]) +
            (first == last ? "" : "-" + std::to_string(of[static_cast<std::size_t>(*last)]));
    first = std::next(last);
  }
  return text;
}

// "batch row 1, tokens 0-15", of the dimensions that are cut.
std::string words_of(const Piece& piece, const Scene& scene) {
  constexpr std::array<const char*, 3> units = {"batch row", "token", "head"};
  std::string text;
  for (const std::size_t dimension : {0U, 2U, 1U}) {
    const Some& some = piece[dimension];
    if (some == scene.all[dimension]) continue;
    text +=
        (text.empty() ? "" : ", ") + std::string(units[dimension]) + (some.size() > 1 ? "s " : " ") +
        (dimension == 1 && scene.sample.sampled ? token_ranges(scene, some) : ranges(in_whole(scene, dimension, some)));
  }
  return text;
}

constexpr const char* all_else = "; all else is as the config asks";

// That, or what it is, where that is the shorter list.
std::string rest_of(const Piece& piece, const Scene& scene) {
  Piece rest = scene.all;
  std::size_t cut = 0;
  for (std::size_t d = 0; d < 3; ++d) {
    if (piece[d] == scene.all[d]) continue;
    for (const std::int64_t one : piece[d]) rest[d].erase(one);
    cut += rest[d].size() < piece[d].size() ? 1 : 2;
  }
  return cut == 1 && !scene.sample.sampled ? "; it is as the config asks in " + words_of(rest, scene) + " only"
                                           : all_else;
}

Answer answer_of(const Scene& scene, const Piece& piece, int depth) {
  Sample cut = scene.sample;
  cut.off = 0;
  for (std::size_t d = 0; d < 3; ++d) cut = cut.part(scene.reading, d, {piece[d].begin(), piece[d].end()});
  Subject subject = subject_of(scene.subject, scene.asked, scene.layout(), piece[0], piece[1]);
  subject.layout = scene.reading.word;
  subject.head_rows.clear();
  for (const std::int64_t head : piece[2])
    subject.head_rows.push_back(scene.asked.rows[static_cast<std::size_t>(head)]);
  return answer(cut, subject, depth);
}

struct Part {
  Piece piece;
  Answer answer;
};

// One answer: the faults first, then what is as asked. rest: of what is in no part.
Answer assembled(const Scene& scene, const std::vector<Part>& given, std::string rest) {
  Answer all{{}, true};
  for (const auto& [piece, answer] : given) {
    all.explained = all.explained && answer.explained;
    if (answer.parts.empty()) all.parts.emplace_back(piece, answer.diagnosis);
    for (const auto& [own, diagnosis] : answer.parts) {
      Piece& numbers = all.parts.emplace_back(Piece{}, diagnosis).first;
      for (std::size_t d = 0; d < 3; ++d) {
        for (const std::int64_t one : own[d]) numbers[d].insert(*std::next(piece[d].begin(), one));
      }
    }
    if (!answer.rest.empty()) rest = all_else;
  }
  const auto is_right = [](const auto& part) { return part.second.verdict == Verdict::as_configured; };
  if (rest == all_else) std::erase_if(all.parts, is_right);
  std::stable_partition(all.parts.begin(), all.parts.end(), std::not_fn(is_right));
  all.rest = rest;
  all.diagnosis = all.parts.front().second;
  all.diagnosis.findings.clear();
  if (all.diagnosis.verdict == Verdict::not_rotated) all.diagnosis.verdict = Verdict::some_heads;
  std::string said;
  for (const auto& part : all.parts) {
    const std::string& own = part.second.sentence;
    const std::string more = "in " + words_of(part.first, scene) +
                             (is_right(part) ? " is as the config asks" : own.substr(scene.sample.name.size()));
    said += (said.empty() ? " " : "; ") + more;
    if (!is_right(part)) all.diagnosis.findings.push_back(more);
  }
  all.diagnosis.sentence = scene.sample.name + said + rest;
  return all;
}

// ---- against what is asked -----------------------------------------------------------------------

void hold_against_asked(Scene& scene) {
  const Sample sample = scene.sample.loosened();
  const Block& block = scene.asked.block;
  const double noise = 6 * measure_noise(scene.sample, block).rms;
  const std::int64_t rows = scene.layout().batch * scene.layout().tokens;
  hold_heads(sample, scene.layout(), block, scene.asked.motion, 0, rows, true, [&](std::span<const Element> head) {
    bool moves = false;
    const std::int64_t before = scene.off;
    const Place& place = head[0].place;
    const auto x = sample.x(at(scene.layout(), place.batch, place.token, place.head));
    for (const Element& one : head) {
      const double allowed = one.allowed + noise;
      moves = moves || std::abs(one.wanted - x[static_cast<std::size_t>(one.place.element)]) > 8 * allowed;
      if (one.off() > allowed && scene.off++ < most_listed) scene.elements.push_back(one);
    }
    const bool off = scene.off > before;
    if (off) ++scene.heads;
    if (!off && !moves) return;
    for (const auto& [d, number] : {std::pair(0, place.batch), {1, place.token}, {2, place.head}})
      (off ? scene.wrong : scene.right)[static_cast<std::size_t>(d)].insert(number);
  });
}

std::optional<Answer> but_for_elements(const Scene& scene) {
  Sample mended = scene.sample;
  std::vector<double> after = mended.after.copied();
  for (const Element& one : scene.elements) {
    const std::int64_t first = at(scene.layout(), one.place.batch, one.place.token, one.place.head);
    after[static_cast<std::size_t>(first + one.place.element)] = one.wanted;
  }
  mended.after = std::move(after);
  Answer found = answer(mended, scene.subject, 0);
  Diagnosis& one = found.diagnosis;
  if (one.verdict != Verdict::as_configured && one.verdict != Verdict::noise) return std::nullopt;
  const Place& first = scene.elements.front().place;
  const auto number = [&](std::size_t dimension, std::int64_t of) {
    return std::to_string(scene.sample.in_whole(dimension, {of})[0]);
  };
  const bool of_all = one.verdict == Verdict::as_configured && !found.bounds.loose;
  const auto others = std::max<std::int64_t>(of_all ? scene.sample.off : 0, std::ssize(scene.elements)) - 1;
  const std::string said =
      " is as the config asks but for " + (others > 0 ? std::to_string(others + 1) + " elements: " : "") + "element " +
      std::to_string(first.element) + " of head " + number(2, first.head) + " at token " + number(1, first.token) +
      (scene.layout().batch > 1 ? " of batch row " + number(0, first.batch) : "") +
      (others > 0 ? " and " + std::to_string(others) + (others > 1 ? " others" : " other") : "");
  one.verdict = Verdict::elements;
  one.findings = {said.substr(1)};
  one.sentence = scene.sample.name + said;
  return found;
}

// Some rows, heads or tokens are as asked, and the others are one part.
std::optional<Answer> by_what_is_asked(const Scene& scene) {
  if (scene.heads == 0 || scene.right[1].empty()) return std::nullopt;
  Piece piece = scene.wrong;
  Some& tokens = piece[1];
  std::int64_t begin = *tokens.begin(), end = *tokens.rbegin() + 1;
  if (4 * std::ssize(tokens) >= 3 * (end - begin)) {  // a range; tokens that hardly move belong to any
    while (begin > 0 && !scene.right[1].contains(begin - 1)) --begin;
    while (end < scene.layout().tokens && !scene.right[1].contains(end)) ++end;
    tokens = range(begin, end);
  }
  const auto wrong = static_cast<double>(scene.heads), elements = static_cast<double>(scene.off);
  const auto heads = static_cast<double>(piece[0].size() * piece[1].size() * piece[2].size());
  if (scene.off < most_listed && elements < 0.02 * static_cast<double>(scene.sample.after.size()) &&
      elements < 0.25 * scene.sample.head_dim * wrong && (wrong < 5 || wrong < 0.75 * heads)) {
    return but_for_elements(scene);
  }
  Piece wide = piece;  // a fault of whole rows or heads shows only where they hold something
  wide[1] = scene.all[1];
  if (piece == scene.all) return std::nullopt;
  if (wide != piece && wide != scene.all) {
    if (const Answer part = answer_of(scene, wide, 0); part.explained) piece = wide;
  }
  const Answer part = answer_of(scene, piece, scene.depth - 1);
  if (part.diagnosis.verdict == Verdict::as_configured) return std::nullopt;
  return assembled(scene, {{piece, part}}, rest_of(piece, scene));
}

// ---- whatever is asked ---------------------------------------------------------------------------

// Every row, or every head, for itself; those of one fault together, or each at an offset of its own.
template <std::size_t Dimension>
std::optional<Answer> by_units(const Scene& scene) {
  const Some& units = scene.all[Dimension];
  if (units.size() < 2 || units.size() > 64) return std::nullopt;
  struct Group {
    bool explained = false;
    Diagnosis fault = {};
    Piece piece = {};
  };
  std::vector<Group> groups;
  std::vector<double> offsets;
  for (const std::int64_t one : units) {
    Piece piece = scene.all;
    piece[Dimension] = {one};
    const Answer own = answer_of(scene, piece, Dimension == 0 ? scene.depth - 1 : 0);
    const std::string& name = scene.sample.name;
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      if (!group.explained || !own.explained) return group.explained == own.explained;
      return is_same_fault({group.fault, name}, {own.diagnosis, name});
    });
    if (same == groups.end()) {
      groups.push_back({own.explained, own.diagnosis, piece});
    } else {
      same->piece[Dimension].insert(one);
    }
    const bool all_explained = std::ranges::all_of(groups, &Group::explained);
    const bool hopeless = groups.size() == 1 && !all_explained && groups[0].piece[Dimension].size() > 2;
    if (hopeless || (groups.size() > 4 && !all_explained)) return std::nullopt;
    const auto& [verdict, sentence, findings, facts, residual] = own.diagnosis;
    const bool moved = verdict == Verdict::offset && findings.size() == 1;
    if ((moved || verdict == Verdict::as_configured) && !facts.positions.empty()) {
      const auto row = static_cast<std::size_t>(*piece[0].begin() * scene.layout().tokens);
      offsets.push_back(facts.positions[0].at(0) - scene.asked.motion.position[0][row]);
    } else if (groups.size() > 4) {
      break;
    }
  }
  if (groups.size() < 2) return std::nullopt;
  if (groups.size() > 4 && offsets.size() == units.size()) {
    Answer all{{Verdict::offset, "", {}, {}, 0}, true};
    std::string said = "is rotated at an offset of its own in each " + std::string(Dimension == 0 ? "row" : "head");
    for (std::size_t i = 0; i < 4; ++i) said += (i == 0 ? ": " : ", ") + detail::significant(offsets[i], 6);
    said += ", ... positions too far";
    all.diagnosis.findings = {said};
    all.diagnosis.sentence = scene.sample.name + " " + said;
    all.diagnosis.facts.layout = scene.reading.word;
    return all;
  }
  const char* rest = groups.size() > 4 ? "; the others were not taken apart" : "";
  std::vector<Part> parts;
  for (const Group& group : groups) parts.push_back({group.piece, answer_of(scene, group.piece, scene.depth - 1)});
  std::ranges::sort(parts, {}, [](const Part& part) { return *part.piece[Dimension].begin(); });
  return assembled(scene, parts, rest);
}

// The longest range of tokens from the first on that one rotation explains, then the next.
std::optional<Answer> by_tokens(const Scene& scene) {
  std::vector<Part> parts;
  for (std::int64_t begin = 0; begin < scene.layout().tokens;) {
    Part best;
    std::int64_t good = begin;
    for (std::int64_t end = scene.layout().tokens, bad = end + 1; bad - good > 1; end = good + (bad - good) / 2) {
      Part some{scene.all, {}};
      some.piece[1] = range(begin, end);
      some.answer = answer_of(scene, some.piece, 0);
      (some.answer.explained ? good : bad) = end;
      if (some.answer.explained) best = std::move(some);
    }
    if (good == begin || parts.size() == 3) return std::nullopt;
    begin = good;
    parts.push_back(std::move(best));
  }
  if (parts.size() < 2) return std::nullopt;
  return assembled(scene, std::move(parts), "");
}

}  // namespace

std::optional<Answer> answer_by_parts(const Sample& sample, const Subject& subject, int depth, bool apart) {
  const std::optional<Block> asked = asked_block(subject, sample.head_dim);
  if (!asked) return std::nullopt;
  std::optional<Scene> scene;
  for (const Reading& reading : likeliest_readings(sample, subject)) {
    const Layout& layout = reading.layout;
    Scene other{sample, subject, reading, ask(subject, *asked, layout), depth};
    other.all = {range(0, layout.batch), range(0, layout.tokens), range(0, layout.heads)};
    hold_against_asked(other);
    if (scene && other.right[1].empty()) continue;
    const bool better = !scene || scene->right[1].empty() || other.off < scene->off;
    if (better) scene.emplace(std::move(other));
  }
  std::optional<Answer> open;
  const bool large = sample.after.size() > most_elements;
  for (auto* way : {answer_by_repair, by_what_is_asked, by_units<0>, by_units<2>, by_tokens}) {
    if (!apart && way == by_units<0>) break;
    if (large && way != by_what_is_asked) continue;
    std::optional<Answer> found = way(*scene);
    if (!found) continue;
    const Verdict verdict = found->diagnosis.verdict;
    if (found->explained || (verdict != Verdict::cannot_tell && verdict != Verdict::elements)) return found;
    if (!open) open = std::move(found);
  }
  if (!large || open) return open;
  Part first{scene->all, {}};
  first.piece[1] = range(0, std::min<std::int64_t>(64, scene->layout().tokens / 2));
  first.answer = answer_of(*scene, first.piece, depth);
  if (!first.answer.explained) return std::nullopt;
  return assembled(*scene, {first}, "; later tokens were not taken apart");
}

}  // namespace rotary::diagnose
