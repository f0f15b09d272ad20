// What rotary table and rotary apply write into the metadata of their output: the rope, and of apply each rotation that
// the tensors went through.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "source.h"

namespace rotary::cli {

using Metadata = std::map<std::string, std::string>;

// What was asked of a model's rope and what it is: config, model_type, part, rope, pairing, direction, rotary_dim,
// base, scaling and each of its values as scaling.NAME, attention_factor, length, angles, rounding ...
// A layer without a rope, whose queries are multiplied, has config, model_type and part.
Metadata metadata_of(const Source&, const TableSettings&, const Model&, const tools::Subject&, const Frequencies&,
                     std::int64_t length);

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
