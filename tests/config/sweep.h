// The sweep: what every model_type of transformers (tools/sweep/sweep.py) and class of diffusers (diffusers_ropes.py)
// makes of its own default config, beside what this library makes of it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rotary/config.h"

namespace rotary::sweep {

using Json = nlohmann::json;

struct SweptRope {
  std::string part;
  std::vector<int> layers, layers_without_rope;
  int heads = 0, kv_heads = 0, head_dim = 0, first = 0, rotary_dim = 0;
  std::string pairing;
  bool clockwise = false;
  std::string axis;  // one digit per pair
  double attention_factor = 1;
  std::vector<double> inv_freq;  // float32 values
  std::vector<double> position;  // one per axis
  std::vector<float> vector;     // input() rotated by the model at position
  std::int64_t length = 0;       // that inv_freq was made for; 0: the default
  int rows = 1;                  // heads with frequencies of their own: axis, inv_freq and vector have those of each
};

struct NoRope {
  std::string part, why;
};

struct Record {
  std::string name;                     // of the file
  std::string model_type;               // of the config
  std::string transformers, diffusers;  // the version of the one that was run
  Json config;
  std::vector<SweptRope> ropes;
  std::vector<NoRope> none;
  bool flagged() const { return name.find('+') != std::string::npos; }  // a switch was changed from its default
};

// Sorted by name, read once.
const std::vector<Record>& records();

// Element d of what was rotated.
inline float input(int d) { return static_cast<float>((d * 37) % 64 - 32) / 16; }

// What was measured of one rope beside ours.
struct Match {
  double inv_freq = 0;  // the worst relative difference
  double vector = 0;    // the worst absolute difference
};

// Where we deliberately follow the published file, or what engines do, and not transformers.
struct Exception {
  std::string record, part, reason;
};
const std::vector<Exception>& exceptions();
const Exception* exception_of(const Record&, const std::string& part);

struct Comparison {
  std::vector<std::string> problems;
  std::vector<std::optional<Match>> matches;  // one for each of our ropes, in their order
};

// Our ropes of one part against the swept ones; problems are sentences that begin with the part.
// Of the part of a model.
Comparison compare(const Model&, const std::string& part, const std::vector<SweptRope>& theirs);

std::vector<ModelRope> ropes_of(const std::vector<ModelRope>&, const std::string& part);
std::vector<SweptRope> ropes_of(const std::vector<SweptRope>&, const std::string& part);

}  // namespace rotary::sweep
