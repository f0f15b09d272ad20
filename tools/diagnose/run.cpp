// Checks the positions of a serving run: each sequence must go on where its previous step ended.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "rotary/checks.h"
#include "subject/number_files.h"
#include "tensors/formats.h"
#include "text/json.h"
#include "text/paths.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

constexpr struct {
  const char *name, *sentence;
} run_causes[] = {
    {"goes_on", "goes on"},
    {"stands_still", "stands still: it has the position of the token before"},
    {"restarts", "begins again at 0"},
    {"of_another_sequence", "has the next position of sequence "},
    {"delta_left_out", "counts the tokens: the delta, which its pictures take off the positions, is left out"},
    {"delta_twice", "takes off the delta of its pictures twice"},
    {"goes_back", "goes back"},
    {"jumps", "jumps"},
    {"overwrites", "is written into the slot of a token that is still read"},
};
static_assert(std::size(run_causes) == static_cast<std::size_t>(RunCause::overwrites) + 1);

// A token of a sequence: its facts that the checks of later tokens need.
struct Kept {
  double most = 0, last = 0;  // the greatest of the sequence up to it, on any axis; its own on axis 0
  bool word = true;           // its position is the same on all axes
  bool draft = false;
  std::int64_t slot = -1;
};

Kept token_of(const RunStep& step, std::size_t token) {
  Kept one{.draft = !step.drafts.empty() && step.drafts[token] != 0};
  one.last = one.most = step.positions[0][token];
  for (const std::vector<double>& axis : step.positions) {
    one.word = one.word && axis[token] == one.last;
    one.most = std::max(one.most, axis[token]);
  }
  if (!step.slots.empty()) one.slot = step.slots[token];
  return one;
}

class Sequences {
 public:
  void add(const RunStep& step, RunCheck& check) {
    std::set<std::int64_t> seen;
    for (std::size_t token = 0; token < step.positions[0].size(); ++token) {
      const std::int64_t number = step.sequences.empty() ? 0 : step.sequences[token];
      std::vector<Kept>& own = kept_[number];
      const bool first = seen.insert(number).second, fresh = own.empty();
      check.continued += first && !fresh ? 1 : 0;
      Kept one = token_of(step, token);
      std::optional<RunFault> fault;
      if (!fresh) fault = first ? find_in_next_step(number, own, one) : find_in_step(own.back(), one);
      if (!fault) fault = find_overwritten(number, own, one);
      if (fault && faulty_.insert(number).second) {
        fault->step = step.name, fault->sequence = number, fault->token = static_cast<std::int64_t>(token);
        check.faults.push_back(*fault);
      }
      if (!own.empty()) one.most = std::max(one.most, own.back().most);
      if (one.slot >= 0) holders_[{number, one.slot}] = own.size();
      own.push_back(one);
      ++check.tokens;
    }
    check.sequences = std::ssize(kept_);
  }

 private:
  static double next(std::span<const Kept> own) { return own.empty() ? 0 : own.back().most + 1; }

  // Drafts at the end of the previous step are dropped until the position follows the last token that is left.
  std::optional<RunFault> find_in_next_step(std::int64_t number, std::vector<Kept>& own, const Kept& one) const {
    std::span<const Kept> without = own;
    while (one.last < next(without) && without.size() > 1 && without.back().draft)
      without = without.first(without.size() - 1);
    const bool goes_on = one.last == next(without) || (without.back().word && one.last == without.back().last + 1);
    if (goes_on || !one.word || !without.back().word) {
      own.resize(without.size());
      return std::nullopt;
    }
    return name_fault(number, without, one);
  }

  static std::optional<RunFault> find_in_step(const Kept& before, const Kept& one) {
    if (one.draft || !one.word || !before.word || one.last == before.last + 1) return std::nullopt;
    const RunCause cause = one.last == before.last  ? RunCause::stands_still
                           : one.last < before.last ? RunCause::goes_back
                                                    : RunCause::jumps;
    return RunFault{.cause = cause, .found = one.last, .asked = before.last + 1};
  }

  RunFault name_fault(std::int64_t number, std::span<const Kept> own, const Kept& one) const {
    const double asked = next(own), count = static_cast<double>(own.size());
    RunFault fault{
        .cause = one.last < asked ? RunCause::goes_back : RunCause::jumps, .found = one.last, .asked = asked};
    const auto other = std::ranges::find_if(
        kept_, [&](const auto& of) { return of.first != number && !of.second.empty() && next(of.second) == one.last; });
    if (one.last == own.back().last) {
      fault.cause = RunCause::stands_still;
    } else if (one.last == 0) {
      fault.cause = RunCause::restarts;
    } else if (count != asked && one.last == count) {
      fault.cause = RunCause::delta_left_out;
    } else if (count != asked && one.last == 2 * asked - count) {
      fault.cause = RunCause::delta_twice;
    } else if (other != kept_.end()) {
      fault.cause = RunCause::of_another_sequence;
      fault.other = other->first;
    }
    return fault;
  }

  std::optional<RunFault> find_overwritten(std::int64_t number, std::span<const Kept> own, const Kept& one) const {
    const auto holder = holders_.find({number, one.slot});
    if (holder == holders_.end() || holder->second >= own.size()) return std::nullopt;
    const Kept& same = own[holder->second];
    if (same.slot != one.slot) return std::nullopt;
    return RunFault{.cause = RunCause::overwrites, .found = static_cast<double>(one.slot), .asked = same.last};
  }

  std::map<std::int64_t, std::vector<Kept>> kept_;
  // For a sequence and a slot the token that was last written there; it may have been dropped since.
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> holders_;
  std::set<std::int64_t> faulty_;
};

// The numbers in the name, then the name: sorts "rank0-7", "rank0-12-a" and "rank1-3" in this order.
std::pair<std::vector<std::int64_t>, std::string> order_of(const std::filesystem::path& file) {
  const std::string name = files::path_text(file.filename()), digits = "0123456789";
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; (at = name.find_first_of(digits, at)) != std::string::npos;) {
    const std::size_t count = std::min(name.find_first_not_of(digits, at), name.size()) - at;
    numbers.push_back(std::stoll(name.substr(at, 18)));  // 18 digits fit 64 bits
    at += count;
  }
  return {std::move(numbers), name};
}

// Throws SHAPE unless all dimensions but the first `axes` and the last, which holds the tokens, are 1.
void expect_shape(const RunStep& step, const std::string& name, const std::vector<std::int64_t>& shape, int axes) {
  const auto is_one = [](std::int64_t size) { return size == 1; };
  if (std::ssize(shape) <= axes + 1 || std::all_of(shape.begin() + axes, shape.end() - 1, is_one)) return;
  fail(Code::SHAPE, "check", name, " of a step must be [tokens]", axes > 0 ? " or [axes, tokens]" : "",
       ", of one row of the batch, but got ", detail::shape_text(shape), " in ", files::in_quotes(step.name));
}

RunStep read_step(const std::filesystem::path& path) {
  RunStep step{.name = files::path_text(path.filename()), .positions = {}};
  const std::map<std::string, std::vector<std::int64_t>*> lists = {
      {"sequences", &step.sequences}, {"drafts", &step.drafts}, {"slots", &step.slots}};
  files::InputTensors file(path);
  for (const TensorInfo& info : std::vector(file.infos())) {
    const std::string name = file.format() == files::Format::npy ? "positions" : info.name;
    const auto list = lists.find(name);
    if (name != "positions" && list == lists.end()) continue;
    const Tensor tensor = file.read(info.name);
    if (list != lists.end()) {
      *list->second = tools::integers_of(tensor, step.name, name);
      expect_shape(step, name, tensor.shape, 0);
      continue;
    }
    const std::vector<double> values = tools::reals_of(tensor, step.name, name);
    expect_shape(step, name, tensor.shape, 1);
    const std::int64_t tokens = tensor.shape.empty() ? 1 : tensor.shape.back();
    for (std::int64_t first = 0; tokens > 0 && first < std::ssize(values); first += tokens)
      step.positions.emplace_back(values.begin() + first, values.begin() + first + tokens);
  }
  if (step.positions.empty())
    fail(Code::TENSOR, "check", "a step of a run must hold positions, [tokens] or [axes, tokens], but ",
         files::in_quotes(step.name), " does not");
  return step;
}

}  // namespace

const char* name(RunCause cause) noexcept { return run_causes[static_cast<std::size_t>(cause)].name; }

std::vector<RunStep> read_run(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder))
    fail(Code::FILE, "check", "a run must be a folder of its steps but got ",
         files::in_quotes(files::path_text(folder)));
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto ending = entry.path().extension();
    if (ending == ".npy" || ending == ".safetensors") paths.push_back(entry.path());
  }
  std::ranges::sort(paths, {}, order_of);
  std::vector<RunStep> steps;
  for (const std::filesystem::path& path : paths) steps.push_back(read_step(path));
  return steps;
}

RunCheck check_run(const std::vector<RunStep>& steps) {
  RunCheck check{.steps = std::ssize(steps)};
  Sequences sequences;
  for (const RunStep& step : steps) {
    const std::size_t tokens = step.positions.empty() ? 0 : step.positions[0].size();
    const auto fits = [&](const auto& list) { return list.empty() || list.size() == tokens; };
    const auto is_whole = [&](const auto& axis) { return axis.size() == tokens; };
    if (tokens == 0 || !std::ranges::all_of(step.positions, is_whole) || !fits(step.sequences) || !fits(step.drafts) ||
        !fits(step.slots)) {
      fail(Code::SHAPE, "check", "positions, sequences, drafts and slots of a step must have one value for each token ",
           "but the lists of ", files::in_quotes(step.name), " do not");
    }
    sequences.add(step, check);
  }
  return check;
}

Outcome RunCheck::outcome() const noexcept {
  return !faults.empty() ? Outcome::differs : continued == 0 ? Outcome::undecided : Outcome::equal;
}

std::string RunCheck::sentence() const {
  if (faults.empty() && continued == 0) return "no sequence goes on in a second step, so nothing was compared";
  if (faults.empty()) return "every sequence goes on where its previous step ended";
  std::string text;
  for (const RunFault& fault : faults) {
    text += (text.empty() ? "" : "; ") + std::string("sequence ") + std::to_string(fault.sequence) + " in " +
            fault.step + ", token " + std::to_string(fault.token) + ", " +
            run_causes[static_cast<std::size_t>(fault.cause)].sentence;
    if (fault.cause == RunCause::of_another_sequence) text += std::to_string(fault.other);
    if (fault.cause == RunCause::overwrites) {
      text += ": slot " + detail::significant(fault.found, 10) + ", which holds position " +
              detail::significant(fault.asked, 10);
    } else {
      text += ": " + detail::significant(fault.found, 10) + " instead of " + detail::significant(fault.asked, 10);
    }
  }
  return text;
}

std::string to_json(const RunCheck& check) {
  files::OrderedJson json = {{"equal", check.outcome() == Outcome::equal},
                             {"verdict", name(check.outcome())},
                             {"sentence", check.sentence()},
                             {"steps", check.steps},
                             {"sequences", check.sequences},
                             {"tokens", check.tokens},
                             {"faults", files::OrderedJson::array()}};
  for (const RunFault& fault : check.faults) {
    json["faults"].push_back({{"cause", name(fault.cause)},
                              {"step", fault.step},
                              {"sequence", fault.sequence},
                              {"token", fault.token},
                              {"found", fault.found},
                              {"asked", fault.asked}});
    if (fault.cause == RunCause::of_another_sequence) json["faults"].back()["other"] = fault.other;
  }
  return files::json_text(json);
}

}  // namespace rotary::diagnose
