// The options that describe a command's rope: a model's CONFIG, or --base or --inv-freq with their further options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rotary/config.h"
#include "rotary/rotary.h"
#include "tools/subject.h"

namespace rotary::cli {

class Command;

struct Source {
  std::string config;
  std::optional<Model> model = {};  // what config names, already read
  std::string pairing;
  std::optional<double> base;
  std::optional<int> head_dim;
  std::optional<int> rotary_dim;
  std::optional<int> first;
  std::optional<int> rope;
  std::optional<std::int64_t> length;
  std::string inv_freq;  // path of a file
  std::string weights;
  std::string scaling;                       // instead of the config's
  const char* scaling_option = "--scaling";  // that gave it
  std::optional<double> factor;
  std::optional<std::int64_t> trained_length;
};

// CONFIG, --pairing, --base, --scaling, --factor, --trained-length, --rotary-dim, --first, --length, --inv-freq,
// --weights. config: "CONFIG", the first word, or "--config".
void add_source_options(Command& command, Source& source, const char* config = "CONFIG");
void add_source_options_but_config(Command& command, Source& source);
void add_head_dim_option(Command& command, Source& source);  // for commands that read no tensor
void add_rope_option(Command& command, Source& source);

std::optional<Pairing> pairing_of(const Source&);  // the value of --pairing

// Reads CONFIG, or makes the one rope that --base or --inv-freq, --pairing, --rotary-dim and --first describe for heads
// of head_dim elements; then applies --base, --scaling, --inv-freq and --weights. Throws ROPE if one of them needs
// --rope.
Model read_model(const Source&, int head_dim);
// frequencies() of one of its ropes; what is wrong with them is said with the name of CONFIG.
Frequencies frequencies_of(const Source&, const Rope&, std::int64_t length);
// Throws UsageError unless CONFIG, or one of --base and --inv-freq without it, is given, with the options that it
// needs.
void check_source(const Source&);
void check_source_without_tensor(const Source&);  // likewise, for commands that need --head-dim too

bool has_rope_options(const Source&);  // whether any but CONFIG is given

// The rope that --rope names, by default the first. Throws ROPE.
const ModelRope& chosen_rope(const Model&, const Source&);

using tools::notes_on;

// "rope 0 of 1: half, head_dim 128, turning 128 from element 0, base 500000, llama3, attention factor 1".
std::string describe(const Model&, const ModelRope&, const Frequencies&);

struct TableSettings {
  std::string angles = "exact";
  std::string rounding = "f32";
};
void add_table_options(Command& command, TableSettings& settings);  // --angles, --rounding
TableOptions table_options(const TableSettings&, const Executor&);

struct Machine {
  std::string target;
  std::optional<unsigned> threads;
};
void add_machine_options(Command& command, Machine& machine);  // --target, --threads

}  // namespace rotary::cli
