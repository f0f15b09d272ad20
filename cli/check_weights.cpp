// rotary check --before DIR --after DIR: the weights of two checkpoints.
#include <iostream>

#include "check_others.h"
#include "rotary/convert.h"
#include "shared/command.h"
#include "shared/text.h"

namespace rotary::cli {

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
