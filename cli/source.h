// The options that say what rotates tensors: a model's CONFIG, or --base or --inv-freq with their further options, or
// rows of cos and sin in files; and at which positions.
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

// The choice of a rope and the options that make the model: CONFIG and values in place of its own, or a rope without
// CONFIG.
struct Source : Choice {
  std::optional<Pairing> pairing;
  std::optional<double> base;
  std::optional<int> head_dim;
  std::optional<int> rotary_dim;
  std::optional<int> first;
  std::filesystem::path inv_freq, weights;
  std::optional<Scaling> scaling;  // instead of the config's; its values come from --factor and --trained-length
  std::optional<double> factor;
  std::optional<std::int64_t> trained_length;
  std::optional<double> attention_factor;
};
struct TableSettings {
  Angles angles = Angles::exact;
  Rounding rounding = Rounding::f32;
};
// The options of a command that makes a file of a rope, without tensors.
struct RopeFileOptions {
  Source source;
  std::filesystem::path output;
};
struct TableRequest {
  Source source;
  std::filesystem::path cos, sin;
  TableSettings settings;
};
struct Machine {
  std::string target;
  unsigned threads = 1;  // 0: all cores
};

// ---- the options of a command: source_options.cpp ------------------------------------------------

void add_rope_options(Command& command, Source& source);  // the options of "rope_options" in cli/data/commands.json
void add_source_options(Command& command, Source& source);     // these, and CONFIG
void add_positions_options(Command& command, Choice& choice);  // --positions, --same-position-on-every-axis
void add_rope_file_options(Command& command, RopeFileOptions& options);  // these, --head-dim, --output
void add_table_options(Command& command, TableSettings& settings);       // --angles, --rounding
void add_machine_options(Command& command, Machine& machine);       // --target, --threads

bool has_rope_options(const Source&);  // whether any but CONFIG is given

// ---- their meaning -------------------------------------------------------------------------------

TableOptions table_options(const TableSettings&, const Executor&);

// Reads CONFIG, or makes the one rope that --base or --inv-freq, --pairing, --rotary-dim and --first describe for heads
// of head_dim elements; then applies --base, --scaling, --inv-freq and --weights. Throws ROPE if one of them needs
// --rope.
Model read_model(const Source&, int head_dim);
// Called by read_model: replaces the scaling, and beside CONFIG the base, of the rope that --rope names: by default the
// only rope of the part that comes first. The trained length is by default that of start_of. Origins and notes say what
// was replaced. Throws ROPE where several ropes need --rope, UsageError where no trained length is known.
void apply_scaling_options(Model&, const Source&);

// Where the value comes from now.
void set_origin(std::vector<ValueOrigin>&, const ValueOrigin&);
// The chosen rope, for an option that is for one of so many. Throws ROPE where nothing chooses among several.
ModelRope& rope_for_option(Model&, const Source&, const char* option, std::ptrdiff_t among);

// Where `rotary extend` starts: the trained length that every command takes. Nothing for a model without CONFIG or
// rope.
extend::Start start_of(const Source&, const Model&);

// The sentences on a rope in use, each a "note: ...": that nothing chose it among several, and the notes on it.
std::vector<std::string> notes_of_use(const Model&, const tools::Subject&);
// frequencies() of one of its ropes; what is wrong with them is said with the name of CONFIG.
Frequencies frequencies_of(const Source&, const Rope&, std::int64_t length);
// To turn by: throws ROPE too, where learned directions are not read (Mochi).
Frequencies frequencies_of(const Source&, const Model&, const ModelRope&, std::int64_t length);
// "half (rotate_half, NeoX)"; "llama3", of an unscaled rope "none"; "all 128 elements", "elements 128-191 of 192".
std::string pairing_text(Pairing);
std::string scaling_text(std::string_view name);
std::string scaling_text(const Scaling&);
std::string elements_text(const ModelRope&);
// "rope 0 of 1: half (rotate_half, NeoX), all 128 elements, base 500000, scaling llama3", and an attention factor.
std::string describe(const Model&, const ModelRope&, const Frequencies&);
// The facts that it and inspect print of a rope whose angles are more than one speed times one coordinate: word, value.
std::vector<std::pair<std::string, std::string>> equation_facts(const Rope&);

}  // namespace rotary::cli
