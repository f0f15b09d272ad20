// The commands of rotary-torch. Each function says which variables their options set, and what the command runs.
#pragma once

namespace rotary::cli {

class Command;

void add_train(Command& command);
void add_generate(Command& command);
void add_forward(Command& command);
void add_perplexity(Command& command);
void add_summary(Command& command);

}  // namespace rotary::cli
