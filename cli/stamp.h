// The facts of the rope in use, which rotary table, golden and apply print and write into their output, and the stamps:
// a record in the file of each rotation that the tensors went through.
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

// The rope of a subject that has its positions. tokens: the most of any tensor. Throws what frequencies_of throws.
struct RopeInUse {
  Frequencies frequencies = {};
  std::vector<std::string> notes = {};  // the rope that it is, and the notes of its use
  Metadata facts = {};                  // metadata_of it
};
RopeInUse use_rope(const Source&, const TableSettings&, const Model&, const tools::Subject&, std::int64_t tokens = 0);

// Prints the notes and "wrote FILE", followed by `more`; to standard error if the file itself goes to standard output.
// With --json prints an object of output, facts and notes.
void report_written(const std::filesystem::path& output, const nlohmann::ordered_json& facts,
                    const std::vector<std::string>& notes, const std::string& more = "");

// One rotation. In a file its facts are the keys "rotary.N.KEY", with N from 1 in the order of the rotations:
// metadata_of (whose direction is under the key clockwise), direction ("forward" or "backward"), layout, and tensors, a
// JSON list of names.
struct Stamp {
  Metadata facts;
  std::vector<std::string> tensors;
};

// Adds a rotation to the metadata of a file. If it undoes the last one (the same in the other direction, with an
// attention factor of 1), the last one is removed instead, and the result is true. Adds a warning if the same elements
// of a tensor had been rotated before.
bool add_stamp(Metadata&, Stamp now, std::vector<std::string>& warnings);

}  // namespace rotary::cli
