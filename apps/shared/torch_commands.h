// The commands of the program rotary-torch, which the program rotary lists too.
#pragma once

#include <array>
#include <string_view>

namespace CLI {
class App;
}

namespace rotary::cli {

struct TorchCommand {
  std::string_view name, help, group;
};

inline constexpr TorchCommand train_command = {"train", "Train a small decoder on a text, character by character",
                                               "Make something"};
inline constexpr TorchCommand generate_command = {"generate", "Continue a text, or token ids, with a decoder",
                                                  "Make something"};
inline constexpr TorchCommand forward_command = {"forward", "The hidden states and logits of a checkpoint",
                                                 "Make something"};
inline constexpr TorchCommand perplexity_command = {"perplexity", "The loss past the trained length, by scaling",
                                                    "Is it right"};
inline constexpr TorchCommand summary_command = {"summary", "A model's layers, output shapes and parameter counts",
                                                 "See a model"};

inline constexpr std::array<TorchCommand, 5> torch_commands = {train_command, generate_command, forward_command,
                                                               perplexity_command, summary_command};

// In rotary-torch. Each registers one: its options, its help, what it runs.
void add_train(CLI::App& app);
void add_generate(CLI::App& app);
void add_forward(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_summary(CLI::App& app);

}  // namespace rotary::cli
