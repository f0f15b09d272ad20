// The commands of the program rotary-torch, which the program rotary lists too.
#pragma once

#include <array>
#include <string_view>

namespace rotary::cli {

struct Program;

struct TorchCommand {
  std::string_view name, group;
};

inline constexpr std::array<TorchCommand, 5> torch_commands = {{{"train", "Make something"},
                                                                {"generate", "Make something"},
                                                                {"forward", "Make something"},
                                                                {"perplexity", "Is it right"},
                                                                {"summary", "See a model"}}};

// In rotary-torch. Each registers one: its options, its help, what it runs.
void add_train(Program& program);
void add_generate(Program& program);
void add_forward(Program& program);
void add_perplexity(Program& program);
void add_summary(Program& program);

}  // namespace rotary::cli
