// A model's rope in use: rope_parameters() and rotate_qk(). The written object is read back and must be the same rope.
#include <cmath>
#include <string>

#include "rotary/config.h"
#include "rotary/error.h"
#include "text/json.h"
#include "values/fail.h"
#include "values/scaling_fields.h"

namespace rotary {
namespace {

using files::OrderedJson;

[[noreturn]] void refuse(const std::string& rule, const std::string& got) {
  fail(Code::ROPE, "rope_parameters", rule, " but ", got);
}

// The rotated block in its head: of an MLA, the last elements.
struct Block {
  int first = 0;
  int size = 0;      // the elements that partial_rotary_factor is a fraction of
  int rotating = 0;  // rotary_dim, or the odd number of elements that was rounded up to it
};

void refuse_what_has_no_key(const Rope& rope, int rotary_dim) {
  const std::string rule = "a rope must be computed from its base and scaling along one axis";
  if (!rope.inv_freq.empty()) refuse(rule, "has inv_freq of its own");
  if (!rope.multiplier.empty()) refuse(rule, "has multipliers of its frequencies");
  if (!rope.phase.empty() || rope.xpos.scale != 0) refuse(rule, "has a phase or an amplitude (xPos)");
  if (rope.attention_factor) refuse(rule, "has an attention factor of its own");
  if (!rope.axis.empty()) refuse(rule, "has an axis for each pair");
  if (!rope.index.empty()) refuse(rule, "has an index for each pair");
  const bool rounded_up = rope.exponent_dim == rotary_dim - 1;
  if (rope.exponent_dim != 0 && rope.exponent_dim != rotary_dim && !rounded_up) {
    refuse("exponent_dim must be rotary_dim, " + std::to_string(rotary_dim) + ", or one less",
           "got " + std::to_string(rope.exponent_dim));
  }
}

Block block_of(const Rope& rope, int first) {
  if (rope.head_dim < 1) refuse("head_dim must be above 0", "got " + std::to_string(rope.head_dim));
  const int rotary_dim = rope.rotary_dim == 0 ? rope.head_dim : rope.rotary_dim;
  refuse_what_has_no_key(rope, rotary_dim);
  const Block block{first, rope.head_dim - first, rope.exponent_dim == 0 ? rotary_dim : rope.exponent_dim};
  if (first != 0 && block.rotating != block.size) {
    refuse("a rotated block that does not begin the head must end it", "elements " + std::to_string(first) + " to " +
                                                                           std::to_string(first + rotary_dim) + " of " +
                                                                           std::to_string(rope.head_dim) + " turn");
  }
  return block;
}

// The fraction for which int(size * fraction) is block.rotating.
double fraction_of(const Block& block) {
  double fraction = static_cast<double>(block.rotating) / block.size;
  while (static_cast<int>(block.size * fraction) < block.rotating) fraction = std::nextafter(fraction, 2.0);
  return fraction;
}

OrderedJson written(const Rope& rope, const Block& block) {
  OrderedJson json = {{"rope_type", scalings::rope_type_of(rope.scaling)}, {"rope_theta", rope.base}};
  if (block.first == 0 && !std::holds_alternative<Proportional>(rope.scaling)) {
    json["partial_rotary_factor"] = fraction_of(block);
  }
  scalings::for_each_stated(
      rope.scaling, [](const auto& field) { return field.reads.key_of == scalings::KeyOf::transformers; },
      [&](const auto& field, const auto& value) { json[field.key] = value; });
  return json;
}

// As a config that has nothing but this rope is read.
Rope read_back(const OrderedJson& parameters, const Block& block) {
  const OrderedJson config = {{"num_hidden_layers", 1},
                              {"num_attention_heads", 1},
                              {"head_dim", block.size},
                              {"hidden_size", block.size},
                              {"rope_parameters", parameters}};
  try {
    return parse_config(config.dump(), {.pairing = Pairing::half}).ropes.at(0).rope;
  } catch (const Error& error) {
    refuse("a rope must be one that read_config takes", "it says: " + std::string(error.rule()));
  }
}

std::string checked_text(const Rope& rope, int first) {
  const Block block = block_of(rope, first);
  const OrderedJson parameters = written(rope, block);
  const Rope read = read_back(parameters, block);
  const int exponent_dim = read.exponent_dim == 0 ? read.rotary_dim : read.exponent_dim;
  if (read.rotary_dim != block.rotating + block.rotating % 2 || exponent_dim != block.rotating) {
    refuse("a scaling " + std::string(name(rope.scaling)) + " must turn " + std::to_string(exponent_dim) +
               " elements of a head of " + std::to_string(block.size),
           "turns " + std::to_string(block.rotating));
  }
  if (!(read.base == rope.base && read.scaling == rope.scaling)) {
    refuse("every number must be finite", "one of base or scaling " + std::string(name(rope.scaling)) + " is not");
  }
  return parameters.dump();
}

}  // namespace

std::string rope_parameters(const Rope& rope) { return checked_text(rope, 0); }

std::string rope_parameters(const ModelRope& used) { return checked_text(used.rope, used.first); }

void rotate_qk(const Heads& q, const Heads& k, const ModelRope& used, std::int64_t first_position,
               const RotateOptions& options) {
  RotateOptions from_first = options;
  from_first.first = used.first;
  rotate_qk(q, k, used.rope, first_position, from_first);
}

}  // namespace rotary
