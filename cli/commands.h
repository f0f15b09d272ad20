// The commands of the rotary program. Each add_ function registers one: its options, its help, what it runs.
#pragma once

#include <stdexcept>

namespace CLI {
class App;
}

namespace rotary::cli {

// The command line itself is wrong: exit 2. What is wrong with a file, a position or a shape is a rotary::Error:
// exit 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void add_inspect(CLI::App& app);
void add_table(CLI::App& app);
void add_apply(CLI::App& app);
void add_compare(CLI::App& app);
void add_demo(CLI::App& app);
void add_explain(CLI::App& app);
void add_models(CLI::App& app);
void add_targets(CLI::App& app);
void add_bench(CLI::App& app);

}  // namespace rotary::cli
