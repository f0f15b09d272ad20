// A sample that no single rotation explains: its rows, heads, ranges of tokens and single elements are diagnosed one by
// one; and a tensor before that is not the input of the rotation is repaired.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "examination.h"

namespace rotary::diagnose {

namespace {

using Some = std::set<std::int64_t>;

constexpr std::int64_t most_listed = 1 << 18;   // elements that differ
constexpr std::size_t most_elements = 1 << 22;  // beyond this only the first tokens are examined

// A sample that no one rotation explains, as it is looked at from its parts.
struct Scene {
  const Sample& sample;
  const Subject& subject;
  Reading reading;
  Asked asked;
  int depth;
  Piece all = {};
  // The rows, tokens and heads with a head that differs from what is asked, and with one that moves as asked.
  Piece wrong = {}, right = {};
  std::int64_t heads = 0;              // how many differ
  std::int64_t off = 0;                // how many elements differ
  std::vector<Element> elements = {};  // the first of them
  const Layout& layout() const noexcept { return reading.layout; }
};

Some range(std::int64_t begin, std::int64_t end) {
  Some all;
  while (begin < end) all.insert(all.end(), begin++);
  return all;
}

// The place of a piece in the dimensions that are cut, in the numbers of the whole. Neighbours in a sample stand for
// all between them.
Where where_of(const Piece& piece, const Scene& scene) {
  Where where;
  Numbers* const lists[] = {&where.rows, &where.tokens, &where.heads};
  for (std::size_t d = 0; d < piece.size(); ++d) {
    if (piece[d] == scene.all[d]) continue;
    std::optional<std::int64_t> last;
    for (const std::int64_t one : piece[d]) {
      const std::int64_t number = scene.sample.in_whole(d, {one})[0];
      const bool between = d == 1 && scene.sample.sampled && last && *last == one - 1;
      std::int64_t next = between ? lists[d]->back() + 1 : number;
      while (next <= number) lists[d]->push_back(next++);
      last = one;
    }
  }
  return where;
}

// The finding on all else: that it is as asked, or where that is, if that is the shorter list.
Finding rest_of(const Piece& piece, const Scene& scene) {
  Piece rest = scene.all;
  std::size_t cuts = 0;
  for (std::size_t d = 0; d < 3; ++d) {
    if (piece[d] == scene.all[d]) continue;
    for (const std::int64_t one : piece[d]) rest[d].erase(one);
    cuts += rest[d].size() < piece[d].size() ? 1 : 2;
  }
  if (cuts != 1 || scene.sample.sampled) return finding(Cause::rest_as_asked);
  return finding(Cause::as_asked_in, {}, where_of(rest, scene));
}

Answer answer_of(const Scene& scene, const Piece& piece, int depth) {
  auto [sample, subject] = cut(scene.sample, scene.subject, scene.reading, scene.asked, piece);
  sample.off = 0;
  return answer(sample, subject, depth);
}

struct Part {
  Piece piece;
  Answer answer;
};

// One answer: the faults first, then what is as asked. rest: of what is in no part.
Answer assembled(const Scene& scene, const std::vector<Part>& given, std::optional<Finding> rest) {
  const auto is_right = [](const Part& part) { return part.answer.diagnosis.verdict == Verdict::as_configured; };
  const auto first = std::ranges::find_if_not(given, is_right);
  Answer all{(first == given.end() ? given.front() : *first).answer.diagnosis, true};
  std::vector<Finding> faults, right;
  for (const Part& part : given) {
    all.explained = all.explained && part.answer.explained;
    const Where where = where_of(part.piece, scene);
    for (Finding one : part.answer.diagnosis.found) {
      if (is_about_rest(one)) rest = finding(Cause::rest_as_asked);
      if (is_about_rest(one)) continue;
      for (Numbers Where::*list : {&Where::rows, &Where::tokens, &Where::heads}) {
        if ((one.where.*list).empty()) one.where.*list = where.*list;
      }
      const bool as_asked = is_right(part) || one.cause == Cause::as_asked;
      (as_asked ? right : faults).push_back(as_asked ? finding(Cause::as_asked, {}, one.where) : std::move(one));
    }
  }
  if (!rest || rest->cause != Cause::rest_as_asked) std::ranges::move(right, std::back_inserter(faults));
  if (rest) faults.push_back(*rest);
  all.diagnosis.found = std::move(faults);
  if (all.diagnosis.verdict == Verdict::not_rotated) all.diagnosis.verdict = Verdict::some_heads;
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
    const ElementIndex& place = head[0].place;
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
  const ElementIndex& first = scene.elements.front().place;
  const auto whole = [&](std::size_t dimension, std::int64_t of) {
    return number(scene.sample.in_whole(dimension, {of})[0]);
  };
  const bool of_all = one.verdict == Verdict::as_configured && !found.bounds.loose;
  const auto count = std::max<std::int64_t>(of_all ? scene.sample.off : 0, std::ssize(scene.elements));
  std::vector<Number> numbers = {
      {"element", number(first.element)}, {"head", whole(2, first.head)}, {"token", whole(1, first.token)}};
  const bool is_part = !scene.sample.numbers[0].empty();  // its row is no difference from the same fault of others
  if (scene.layout().batch > 1 || is_part)
    numbers.push_back({"row", whole(0, first.batch), 0, is_part ? std::numeric_limits<double>::infinity() : 0});
  if (count > 1) numbers.push_back({"count", number(count)});
  if (count > 1) numbers.push_back({count > 2 ? "others" : "other", number(count - 1)});
  Some elements;
  for (const Element& each : scene.elements) elements.insert(each.place.element);
  one.verdict = Verdict::elements;
  one.found = {finding(Cause::single_elements, std::move(numbers), {.elements = {elements.begin(), elements.end()}})};
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

// Diagnoses every row, or every head, on its own; answers if all with a fault share it, or each has its own offset.
template <std::size_t Dimension>
std::optional<Answer> by_units(const Scene& scene) {
  const Some& units = scene.all[Dimension];
  if (units.size() < 2 || units.size() > 64) return std::nullopt;
  std::vector<Part> groups;  // each answered by its first unit
  std::vector<double> offsets;
  for (const std::int64_t one : units) {
    Piece piece = scene.all;
    piece[Dimension] = {one};
    const Answer own = answer_of(scene, piece, Dimension == 0 ? scene.depth - 1 : 0);
    const auto is_explained = [](const Part& group) { return group.answer.explained; };
    const auto same = std::ranges::find_if(groups, [&](const Part& group) {
      if (!is_explained(group) || !own.explained) return is_explained(group) == own.explained;
      return group.answer.diagnosis.found == own.diagnosis.found;
    });
    if (same != groups.end()) {
      same->piece[Dimension].insert(one);
    } else {
      groups.push_back({piece, own});
    }
    const bool all_explained = std::ranges::all_of(groups, is_explained);
    const bool hopeless = groups.size() == 1 && !all_explained && groups[0].piece[Dimension].size() > 2;
    if (hopeless || (groups.size() > 4 && !all_explained)) return std::nullopt;
    const Diagnosis& fault = own.diagnosis;
    const bool moved = fault.verdict == Verdict::offset && count_faults(fault.found) == 1;
    if ((moved || fault.verdict == Verdict::as_configured) && !fault.facts.positions.empty()) {
      const auto row = static_cast<std::size_t>(*piece[0].begin() * scene.layout().tokens);
      offsets.push_back(fault.facts.positions[0].at(0) - scene.asked.motion.position[0][row]);
    } else if (groups.size() > 4) {
      break;
    }
  }
  if (groups.size() < 2) return std::nullopt;
  if (groups.size() > 4 && offsets.size() == units.size()) {
    offsets.resize(4);
    Answer all{{Verdict::offset}, true};
    all.diagnosis.found = {
        finding(Cause::offsets, {{"unit", Dimension == 0 ? "row" : "head"}, {"offsets", std::move(offsets), 6}})};
    all.diagnosis.facts.layout = scene.reading.word;
    return all;
  }
  for (Part& group : groups) group.answer = answer_of(scene, group.piece, scene.depth - 1);
  std::ranges::sort(groups, {}, [](const Part& part) { return *part.piece[Dimension].begin(); });
  return assembled(scene, groups, groups.size() > 4 ? std::optional(finding(Cause::others_open)) : std::nullopt);
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
  return assembled(scene, parts, std::nullopt);
}

// ---- a tensor before that is not the input of the rotation: it is repaired and diagnosed again -----

std::size_t in(std::int64_t number) { return static_cast<std::size_t>(number); }
double norm_of(std::span<const double> head) {
  return std::sqrt(std::inner_product(head.begin(), head.end(), head.begin(), 0.0));
}

using Spot = std::array<std::int64_t, 3>;  // a head's row, token and number
template <class Visit>
void for_each_spot(const Scene& scene, Visit visit) {
  const std::int64_t tokens = scene.layout().tokens;
  for_each_head(scene.layout(), [&](std::int64_t row, std::int64_t head, std::int64_t first) {
    visit(Spot{row / tokens, row % tokens, head}, first);
  });
}

// The answer for the sample `other`, in which a fault is repaired. found: the finding on this fault.
std::optional<Answer> repaired(const Scene& scene, const Sample& other, Finding found) {
  Answer answered = answer(other, scene.subject, 0);
  if (!answered.explained) return std::nullopt;
  Diagnosis& one = answered.diagnosis;
  if (one.found.front().cause == Cause::map) return std::nullopt;  // no second fault after a repair
  const bool right = one.verdict == Verdict::as_configured || one.verdict == Verdict::noise;
  if (right) one.found = {finding(Cause::as_configured)};
  one.verdict = found.verdict;
  one.found.insert(one.found.begin(), std::move(found));
  return answered;
}

std::optional<Answer> repaired(const Scene& scene, std::vector<double> before, Finding found) {
  Sample other = scene.sample;
  other.before = std::move(before);
  return repaired(scene, other, std::move(found));
}

// How far two lists are from a multiple of each other.
double apart(const std::vector<double>& one, const std::vector<double>& other) {
  double xx = 0, xy = 0, yy = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    xx += square(one[i]);
    xy += one[i] * other[i];
    yy += square(other[i]);
  }
  return xx * yy > 0 ? 1 - xy * xy / (xx * yy) : 1;
}

// A rotation keeps the norms of heads.
std::optional<Answer> in_another_order(const Scene& scene, std::size_t dimension, const std::string& unit) {
  std::vector<std::vector<double>> before(scene.all[dimension].size()), after = before;
  for_each_spot(scene, [&](const Spot& place, std::int64_t first) {
    for (const auto& [head, norms] : {std::pair(scene.sample.x(first), &before), {scene.sample.y(first), &after}}) {
      (*norms)[in(place[dimension])].push_back(norm_of(head));
    }
  });
  std::vector<std::int64_t> from;
  for (const std::vector<double>& norms : after) {
    const auto best = std::ranges::min_element(before, {}, [&](const auto& other) { return apart(norms, other); });
    if (norms.size() < 4 || apart(norms, *best) > 1e-4) return std::nullopt;
    from.push_back(best - before.begin());
  }
  const auto moved = std::ranges::mismatch(from, scene.all[dimension]).in1;
  if (moved == from.end()) return std::nullopt;
  std::vector<double> elements = scene.sample.before.copied();
  for_each_spot(scene, [&](Spot place, std::int64_t first) {
    place[dimension] = from[in(place[dimension])];
    std::ranges::copy(scene.sample.x(at(scene.layout(), place[0], place[1], place[2])), elements.begin() + first);
  });
  return repaired(scene, std::move(elements),
                  finding(Cause::another_order,
                          {{"unit", unit}, {"after", number(moved - from.begin())}, {"before", number(*moved)}}));
}

// In front of the rotation, of each head or of all heads of a token, RMS or with a mean.
struct Norm {
  bool of_all_heads, of_each_head, with_mean;  // of_each_head: its weights
  double epsilon = 1e-6;
};

std::vector<double> normed(const Scene& scene, const Norm& norm) {
  std::map<Spot, std::array<double, 3>> sums;  // for each norm: elements, squares and their number
  const auto norm_of = [&](const Spot& place) { return Spot{place[0], place[1], norm.of_all_heads ? 0 : place[2]}; };
  for_each_spot(scene, [&](const Spot& place, std::int64_t first) {
    auto& [all, squares, count] = sums[norm_of(place)];
    for (const double x : scene.sample.x(first)) all += norm.with_mean ? x : 0, squares += square(x), ++count;
  });
  std::vector<double> elements = scene.sample.before.copied();
  for_each_spot(scene, [&](const Spot& place, std::int64_t first) {
    const auto& [all, squares, count] = sums[norm_of(place)];
    const double mean = all / count, size = std::sqrt(squares / count - square(mean) + norm.epsilon);
    for (double& x : std::span(elements).subspan(in(first), in(scene.sample.head_dim))) x = (x - mean) / size;
  });
  return elements;
}

// A before in front of a norm with a weight and a bias of each element, found by turning after back as the asked rope
// would have turned it in that pairing.
std::optional<Answer> in_front_of_a_norm(const Scene& scene, const Norm& norm, Kind kind) {
  const std::size_t dim = in(scene.sample.head_dim), sets = norm.of_each_head ? scene.all[2].size() : 1;
  const std::vector<double> x = normed(scene, norm);
  std::vector<double> before = x, y = scene.sample.after.copied();
  const Block block{kind, scene.asked.block.first, scene.asked.block.pairs};
  rotate(y, scene.layout(), block.reversed(), scene.asked.motion.reversed());
  const auto set_of = [&](const Spot& place) { return norm.of_each_head ? in(place[2]) : 0; };
  // Elements that hardly differ are told apart by what they differ.
  const auto origin = [&](const Spot& place, std::size_t u) {
    return x[in(at(scene.layout(), 0, 0, static_cast<std::int64_t>(set_of(place)))) + u];
  };
  std::vector<TwoWeights> of(sets * dim);
  for_each_spot(scene, [&](const Spot& place, std::int64_t first) {
    for (std::size_t u = 0; u < dim; ++u)
      of[set_of(place) * dim + u].add(x[in(first) + u] - origin(place, u), 1, y[in(first) + u]);
  });
  double off = 0, all = 0;
  for (const TwoWeights& one : of) {
    if (!one.solvable() && one.nn > 0) return std::nullopt;
    off += one.off();
    all += one.nn;
  }
  if (off > 1e-3 * all) return std::nullopt;
  for_each_spot(scene, [&](const Spot& place, std::int64_t first) {
    for (std::size_t u = 0; u < dim; ++u) {
      const TwoWeights& one = of[set_of(place) * dim + u];
      before[in(first) + u] = one.a() * (x[in(first) + u] - origin(place, u)) + one.b();
    }
  });
  Finding found = finding(Cause::before_norm, {{"unit", norm.of_all_heads ? "token" : "head"}});
  if (scene.subject.norm_behind) found = finding(Cause::norm_in_front);
  if (norm.with_mean) found.numbers.push_back({"mean", true});
  return repaired(scene, std::move(before), std::move(found));
}

// A factor of most heads, of each its own.
std::optional<Answer> by_factors(const Scene& scene) {
  std::vector<double> before = scene.sample.before.copied();
  std::int64_t heads = 0, other = 0;
  for_each_spot(scene, [&](const Spot&, std::int64_t first) {
    const double x = norm_of(scene.sample.x(first)), factor = x > 0 ? norm_of(scene.sample.y(first)) / x : 0;
    for (double& element : std::span(before).subspan(in(first), scene.sample.x(first).size())) element *= factor;
    ++heads;
    other += factor > 0 && std::abs(factor / scene.asked.motion.factor - 1) > 0.02 ? 1 : 0;
  });
  if (4 * other < 3 * heads) return std::nullopt;
  return repaired(scene, std::move(before), finding(Cause::factors));
}

// Elements that the model does not rotate, and that change.
std::optional<Answer> but_for_still_elements(const Scene& scene) {
  const Block& block = scene.asked.block;
  std::vector<double> before = scene.sample.before.copied();
  std::set<std::int64_t> changed;
  TwoWeights factor;
  for_each_spot(scene, [&](const Spot&, std::int64_t first) {
    const auto x = scene.sample.x(first), y = scene.sample.y(first);
    for (int u = 0; u < scene.sample.head_dim; ++u) {
      if (u >= block.first && u < block.first + block.rotary_dim()) continue;
      factor.add(x[in(u)], 0, y[in(u)]);
      if (x[in(u)] != y[in(u)]) changed.insert(u);
      before[in(first + u)] = y[in(u)];
    }
  });
  if (changed.empty()) return std::nullopt;
  const bool all_alike = factor.off() < 1e-4 * factor.nn;
  const Cause cause = factor.nn == 0 ? Cause::still_elements_zero
                      : all_alike    ? Cause::still_elements_multiplied
                                     : Cause::still_elements_differ;
  Finding found = finding(cause, {}, {.elements = {changed.begin(), changed.end()}});
  if (cause == Cause::still_elements_multiplied) found.numbers = {{"factor", factor.a(), 4}};
  return repaired(scene, std::move(before), std::move(found));
}

// Heads or rows in another order, or in front of a norm.
std::optional<Answer> answer_by_repair(const Scene& scene) {
  if (auto found = but_for_still_elements(scene)) return found;
  if (auto found = in_another_order(scene, 2, "head")) return found;
  if (auto found = in_another_order(scene, 0, "batch row")) return found;
  for (const Kind kind : {Kind::half, Kind::interleaved, Kind::interleaved_to_half}) {
    for (const auto& [all, each] : {std::pair(false, false), {false, true}, {true, true}}) {
      for (const auto& [mean, epsilon] : {std::pair(false, 1e-6), {false, 1e-5}, {true, 1e-6}, {true, 1e-5}}) {
        if (auto found = in_front_of_a_norm(scene, {all, each, mean, epsilon}, kind)) return found;
      }
    }
  }
  if (const auto plain = without_norm_behind(scene.sample, scene.reading, scene.subject)) {
    if (auto found = repaired(scene, *plain, finding(Cause::norm_behind))) return found;
  }
  return by_factors(scene);
}

}  // namespace

Piece all_of(const Layout& layout) { return {range(0, layout.batch), range(0, layout.tokens), range(0, layout.heads)}; }

std::pair<Sample, Subject> cut(const Sample& sample, const Subject& subject, const Reading& reading, const Asked& asked,
                               const Piece& piece) {
  std::pair<Sample, Subject> some = {sample, subject};
  for (std::size_t d = 0; d < 3; ++d) some.first = some.first.part(reading, d, {piece[d].begin(), piece[d].end()});
  const auto positions_in = [&](const std::vector<std::vector<double>>& of_axes) {
    PositionSet positions;
    positions.axes = static_cast<int>(of_axes.size());
    positions.batch = static_cast<int>(piece[0].size());
    positions.tokens = std::ssize(piece[1]);
    for (const std::vector<double>& axis : of_axes) {
      for (const std::int64_t row : piece[0]) {
        for (const std::int64_t token : piece[1])
          positions.reals.push_back(axis[static_cast<std::size_t>(row * reading.layout.tokens + token)]);
      }
    }
    return positions;
  };
  some.second.positions = positions_in(asked.motion.position);
  if (subject.from) some.second.from = positions_in(asked.motion.from);
  some.second.length = asked.length;
  some.second.layout = reading.word;
  some.second.head_rows.clear();
  for (const std::int64_t head : piece[2]) some.second.head_rows.push_back(asked.rows[static_cast<std::size_t>(head)]);
  return some;
}

std::optional<Answer> answer_by_parts(const Sample& sample, const Subject& subject, int depth, bool apart) {
  const std::optional<Block> asked = asked_block(subject, sample.head_dim);
  if (!asked) return std::nullopt;
  std::optional<Scene> scene;
  for (const Reading& reading : likeliest_readings(sample, subject)) {
    const Layout& layout = reading.layout;
    Scene other{sample, subject, reading, ask(subject, *asked, layout), depth};
    other.all = all_of(layout);
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
  return open;
}

}  // namespace rotary::diagnose
