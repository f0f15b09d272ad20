// The facts of the rope in use that rotary table, golden and apply print and write into their output, and each rotation
// that the tensors went through.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "source.h"

namespace rotary::cli {

using Metadata = std::map<std::string, std::string>;

// The request and the rope as metadata: config, model_type, part, rope, pairing, direction, rotary_dim,
// base, scaling and each of its values as scaling.NAME, attention_factor, length, angles, rounding ...
// A layer without a rope, whose queries are multiplied, has config, model_type and part.
Metadata metadata_of(const Source&, const TableSettings&, const Model&, const tools::Subject&, const Frequencies&,
                     std::int64_t length);

// The rope of a subject that has its positions, in tensors of at most so many tokens. Throws what frequencies_of
// throws.
struct RopeInUse {
  Frequencies frequencies = {};
  std::vector<std::string> notes = {};  // the rope that it is, and the notes of its use
  Metadata facts = {};                  // metadata_of it
};
RopeInUse use_rope(const Source&, const TableSettings&, const Model&, const tools::Subject&, std::int64_t tokens = 0);

// Prints what was written, with --json as output, the facts and notes; else the notes and "wrote FILE" with more behind
// it, to standard error where the file itself goes to standard output.
void report_written(const std::filesystem::path& output, const nlohmann::ordered_json& facts,
                    const std::vector<std::string>& notes, const std::string& more = "");

// One rotation. In a file its facts are the keys "rotary.N.KEY", N from 1 in the order of the rotations: metadata_of
// (its direction under the key clockwise), with direction, "forward" or "backward", layout, and tensors, a JSON list of
// names.
struct Stamp {
  Metadata facts;
  std::vector<std::string> tensors;
};

std::vector<Stamp> stamps_of(const Metadata&);
// Without the stamps, and with these instead.
Metadata stamped(const Metadata&, const std::vector<Stamp>&);

// Adds a rotation. One that undoes the last one, being the same in the other direction with an attention factor of 1,
// takes that one away instead.
struct Stamped {
  std::vector<Stamp> stamps;
  bool undone = false;
  std::string warning;  // the tensors had been rotated before, and this adds to it; empty: no
};
Stamped add_stamp(std::vector<Stamp> before, const Stamp& now);

}  // namespace rotary::cli
