// The commands of the rotary-torch program. Each add_ function registers one: its options, its help, what it runs.
#pragma once

namespace CLI {
class App;
}

namespace rotary::cli {

void add_train(CLI::App& app);
void add_generate(CLI::App& app);
void add_forward(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_summary(CLI::App& app);

}  // namespace rotary::cli
