// rotary check --run DIR: the positions of a serving run.
#include <iostream>

#include "check_others.h"
#include "rotary/checks.h"
#include "shared/command.h"
#include "shared/text.h"

namespace rotary::cli {

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

}  // namespace rotary::cli
