// The options that describe a rotation: the rope, by a model's CONFIG, by --base or --inv-freq with their further
// options, or by rows of cos and sin in files; and the positions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rotary/choice.h"
#include "rotary/config.h"
#include "rotary/extend.h"
#include "rotary/rotary.h"
#include "subject/subject.h"

namespace rotary::cli {

class Command;

// The choice of a rope and the options that make the model: CONFIG and values that replace its own, or a rope without
// CONFIG.
struct Source : Choice {
  std::optional<Pairing> pairing;
  std::string model_type;  // in place of the config's
  std::optional<double> base;
  std::optional<int> head_dim;
  std::optional<int> rotary_dim;
  std::optional<int> first;
  std::filesystem::path inv_freq, weights;
  std::optional<Scaling> scaling;  // replaces the config's; its values come from --factor and --trained-length
  std::optional<double> factor;
  std::optional<std::int64_t> trained_length;
  std::optional<double> attention_factor;
};
struct TableSettings {
  Angles angles = Angles::exact;
  Rounding rounding = Rounding::f32;
};
// The options of a command that writes a file about a rope and takes no tensors.
struct RopeFileOptions {
  Source source;
  std::filesystem::path output;
};
struct Machine {
  std::string target;
  unsigned threads = 1;  // 0: all cores
};

// ---- the options of a command --------------------------------------------------------------------

void add_rope_options(Command& command, Source& source);  // the options of "rope_options" in cli/data/commands.json
void add_source_options(Command& command, Source& source);     // rope options and CONFIG
void add_positions_options(Command& command, Choice& choice);  // --positions, --same-position-on-every-axis
void add_rope_file_options(Command& command, RopeFileOptions& options);  // all above, --head-dim, --output
void add_table_options(Command& command, TableSettings& settings);       // --angles, --rounding
void add_machine_options(Command& command, Machine& machine);       // --target, --threads

// ---- their meaning -------------------------------------------------------------------------------

TableOptions table_options(const TableSettings&, const Executor&);

// Reads CONFIG, or makes the one rope that --base or --inv-freq, --pairing, --rotary-dim and --first describe for heads
// of head_dim elements; then applies --base, --scaling, --inv-freq and --weights. Throws ROPE if one of them needs
// --rope.
Model read_model(const Source&, int head_dim);
// Called by read_model: replaces the scaling, and beside CONFIG the base, of the rope that --rope or --layer chooses,
// by default the only rope of the first part. The trained length is by default start_of's. Origins and notes record the
// replacement. Throws ROPE if several ropes need --rope, UsageError if no trained length is known.
void apply_scaling_options(Model&, const Source&);

// Replaces or adds the origin of a value.
void set_origin(std::vector<ValueOrigin>&, const ValueOrigin&);
// The rope that an option changes, out of `among`. Throws ROPE if there are several and none is chosen.
ModelRope& rope_for_option(Model&, const Source&, const char* option, std::ptrdiff_t among);

// The trained length that `rotary extend` starts from, which every command uses; empty for a model without CONFIG or
// rope.
extend::Start start_of(const Source&, const Model&);

// Notes to print for a rope in use, each "note: ...": that it was chosen by default, and the reader's notes about it.
std::vector<std::string> notes_of_use(const Model&, const tools::Subject&);
// frequencies() of one of the model's ropes; an error names CONFIG.
Frequencies frequencies_of(const Source&, const Rope&, std::int64_t length);
// Frequencies for a rotation: also throws ROPE if the model's learned directions have not been read (Mochi).
Frequencies frequencies_of(const Source&, const Model&, const ModelRope&, std::int64_t length);
// The name by which several configs are told apart: of a config.json or params.json its folder's, else the file's or
// folder's own.
std::string short_name(const std::string& config);
// "llama3", for an unscaled rope "none"; "all 128 elements", "elements 128-191 of 192".
std::string scaling_text(std::string_view name);
std::string scaling_text(const Scaling&);
std::string elements_text(const ModelRope&);
// "rope 0 of 1: half (rotate_half, NeoX), all 128 elements, base 500000, scaling llama3", and an attention factor.
std::string describe(const Model&, const ModelRope&, const Frequencies&, std::int64_t length);
// Word and value of the facts about a rope with sums of axes or with rows per head; printed by describe and inspect.
std::vector<std::pair<std::string, std::string>> equation_facts(const Rope&);

}  // namespace rotary::cli
