// rotary check --cos F --sin F, or --inv-freq F without tensors: an engine's table alone.
#include <algorithm>
#include <iostream>
#include <utility>

#include "check_others.h"
#include "rotary/checks.h"
#include "shared/command.h"
#include "shared/tensors.h"
#include "shared/text.h"

namespace rotary::cli {

namespace {

// The tensor of that name in a file, else its only one.
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
    const PairRows rows = read_pair_rows(inv_freq);
    result = check_inv_freq(request, rows.values);
    text = "inv_freq of " + counted(static_cast<std::size_t>(rows.pairs), "pair");
  } else {
    const Tensor cos = read_one(files.cos, files.sin.empty() ? "cos_sin" : "cos");
    std::optional<Tensor> sin;
    if (!files.sin.empty()) sin = read_one(files.sin, "sin");
    result = check_table(request, cos, sin);
    text = "cos and sin " + shape_text(cos.shape) + " of " + name(cos.type);
  }
  const diagnose::NamedCheck& one = result.tensors.front();
  if (asks_json()) print_json(to_json(result));
  const auto allowed = [&] {
    return "largest error " + significant(one.checked.error, 2) + " where " + significant(one.checked.allowed, 2) +
           " is allowed";
  };
  if (!asks_json()) {
    const std::string how = one.note.empty() ? "" : ", " + one.note;
    std::cout << name(one.outcome) << ": ";
    if (one.outcome == diagnose::Outcome::equal) {
      std::cout << text << " are as the config asks (" << allowed() << how << (one.rope.empty() ? "" : ", " + one.rope)
                << ")\n";
    } else if (one.checked.first && one.outcome == diagnose::Outcome::differs) {
      const diagnose::Place& first = *one.checked.first;
      std::cout << text << how << ", " << allowed() << "; first at ";
      if (inv_freq.empty())
        std::cout << "row " << first.token << (first.element == first.pair ? ", cos of " : ", sin of ");
      std::cout << "pair " << *first.pair << '\n' << printable(one.sentence) << '\n';
    } else {
      std::cout << printable(one.sentence) << '\n';
    }
  }
  return one.outcome;
}

}  // namespace rotary::cli
