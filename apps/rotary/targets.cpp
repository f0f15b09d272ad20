// rotary targets: the instruction sets of this build, and which of them this machine runs.
#include "rotary/targets.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "rotary/self_test.h"

namespace rotary::cli {

namespace {

struct TargetsOptions {
  bool json = false;
  std::string target;
};

void run(const TargetsOptions& options) {
  if (!options.target.empty()) use_target(options.target);
  const std::string chosen(chosen_target());
  self_test();
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Target& target : targets()) list.push_back({{"name", std::string(target.name)}, {"runs", target.runs}});
    std::cout << versioned({{"targets", std::move(list)}, {"chosen", chosen}}) << '\n';
    return;
  }
  const Columns columns({Column{.width = 10}, Column{}});
  for (const Target& target : targets()) {
    const char* state = target.name == chosen ? "chosen" : target.runs ? "runs" : "not on this machine";
    std::cout << columns.line({std::string(target.name), state}) << '\n';
  }
}

}  // namespace

void add_targets(CLI::App& app) {
  auto options = std::make_shared<TargetsOptions>();
  Command command(app, "targets");
  command.option("--json", options->json);
  command.option("--target", options->target);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
