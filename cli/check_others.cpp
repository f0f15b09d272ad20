// rotary check for a table or frequencies alone, for a serving run, and for the weights of two checkpoints.
#include <algorithm>
#include <iostream>
#include <utility>

#include "check_others.h"
#include "rotary/checks.h"
#include "rotary/convert.h"
#include "shared/command.h"
#include "shared/tensors.h"
#include "shared/text.h"

namespace rotary::cli {

namespace {

// The tensor of that name in a file, else the file's only tensor.
Tensor read_one(const std::filesystem::path& path, const std::string& name) {
  InputTensors file(path);
  const std::vector<TensorInfo>& all = file.infos();
  const bool named = std::ranges::find(all, name, &TensorInfo::name) != all.end();
  if (!named && all.size() != 1) {
    fail(Code::TENSOR, "check", "a file must have one tensor, or one named ", name, ", but '", printable(file.name()),
         "' has ", all.size());
  }
  return file.read(named ? name : all.front().name);
}

}  // namespace

diagnose::Outcome check_table_alone(diagnose::Request& request, Source source, const TableFiles& files) {
  const std::filesystem::path inv_freq = files.cos.empty() ? std::exchange(source.inv_freq, {}) : "";
  if (source.config.empty())
    throw UsageError("CONFIG is required, or --before: a table alone is checked against a model");
  static_cast<Choice&>(request) = source;
  request.model = read_model(source, 0);
  diagnose::CheckResult result;
  std::string text;
  if (!inv_freq.empty()) {
    if (request.tolerance)
      throw UsageError("--tolerance is about elements of tensors or tables: inv_freq is held to float32");
    const PairRows rows = read_pair_rows(inv_freq);
    if (rows.rows > 1 || rows.summed_axes > 0)
      fail(Code::SHAPE, "check", "inv_freq must be [pairs] where it is checked alone, but '",
           printable(files::path_text(inv_freq)), "' has several rows: save each alone");
    result = check_inv_freq(request, rows.values);
    text = "inv_freq " + shape_text(std::vector<std::int64_t>{rows.pairs});
  } else {
    const Tensor cos = read_one(files.cos, files.sin.empty() ? "cos_sin" : "cos");
    std::optional<Tensor> sin;
    if (!files.sin.empty()) sin = read_one(files.sin, "sin");
    result = check_table(request, cos, sin);
    text = "cos and sin " + shape_text(cos.shape) + " of " + name(cos.type);
  }
  const diagnose::NamedCheck& one = result.tensors.front();
  if (asks_json()) {
    print_json(to_json(result));
    return one.outcome;
  }
  const diagnose::Checked& checked = one.checked;
  if (!one.note.empty()) text += ", " + one.note;
  const std::string errors =
      "largest error " + significant(checked.error, 2) + " where " + significant(checked.allowed, 2) + " is allowed";
  if (one.outcome == diagnose::Outcome::equal) {
    std::cout << "equal: " << text << ", as the config asks (" << (inv_freq.empty() ? errors : "within float32")
              << (one.rope.empty() ? "" : ", " + one.rope) << ")\n";
  } else if (one.outcome == diagnose::Outcome::differs) {
    std::cout << "differs: " << text;
    if (checked.first && !inv_freq.empty()) std::cout << ", first in pair " << *checked.first->pair;
    if (checked.first && inv_freq.empty())
      std::cout << ", " << errors << "; first at row " << checked.first->token
                << (checked.first->element == checked.first->pair ? ", cos of pair " : ", sin of pair ")
                << *checked.first->pair;
    std::cout << '\n' << printable(one.sentence) << '\n';
  } else {
    std::cout << "undecided: " << printable(one.sentence) << '\n';
  }
  return one.outcome;
}

diagnose::Outcome check_run_of(const std::filesystem::path& folder) {
  const diagnose::RunCheck check = diagnose::check_run(diagnose::read_run(folder));
  if (asks_json()) {
    print_json(to_json(check));
  } else {
    std::cout << name(check.outcome()) << ": " << printable(check.sentence()) << " ("
              << counted(static_cast<std::size_t>(check.steps), "step") << ", "
              << counted(static_cast<std::size_t>(check.sequences), "sequence") << ", "
              << counted(static_cast<std::size_t>(check.tokens), "token") << ")\n";
  }
  return check.outcome();
}

diagnose::Outcome check_weights(const std::filesystem::path& before, const std::filesystem::path& after,
                                std::optional<Pairing> pairing) {
  const ComparedCheckpoints compared = compare_checkpoints(before, after, pairing);
  const diagnose::Outcome outcome = compared.equal() ? diagnose::Outcome::equal : diagnose::Outcome::differs;
  if (asks_json()) {
    print_json(to_json(compared));
  } else {
    std::cout << name(outcome) << ": " << printable(compared.sentence()) << '\n';
  }
  return outcome;
}

}  // namespace rotary::cli
