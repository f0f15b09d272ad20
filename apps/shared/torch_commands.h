// The commands of the program rotary-torch, which the program rotary lists too.
#pragma once

#include <array>
#include <string_view>

namespace CLI {
class App;
}

namespace rotary::cli {

struct TorchCommand {
  std::string_view name, group;
};

inline constexpr std::array<TorchCommand, 5> torch_commands = {{{"train", "Make something"},
                                                                {"generate", "Make something"},
                                                                {"forward", "Make something"},
                                                                {"perplexity", "Is it right"},
                                                                {"summary", "See a model"}}};

// In rotary-torch. Each registers one: its options, its help, what it runs.
void add_train(CLI::App& app);
void add_generate(CLI::App& app);
void add_forward(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_summary(CLI::App& app);

}  // namespace rotary::cli
