// A checkpoint's q and k projections from one pairing to the other, without a change of any value. docs/convert.md says
// which families and formats are read. Link rotary_tools.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rotary/config.h"
#include "rotary/tensors.h"

namespace rotary {

struct ConvertRequest {
  // A folder: config.json with model.safetensors, its shards and index, or an adapter of PEFT.
  std::filesystem::path input = {};
  std::filesystem::path output = {};  // a folder that is not there or empty; not read by a dry run
  Pairing to = Pairing::unset;        // half or interleaved; required
  std::optional<Pairing> from = std::nullopt;  // the pairing before; none: as the metadata say, else the config
  bool dry_run = false;                        // writes nothing
  bool verify = false;                         // undoes the change again and compares the bytes

  // Called between pieces, with bytes written of all, or layers verified of all. What it throws stops the conversion,
  // of which nothing is left then.
  std::function<void(bool verifying, std::uint64_t done, std::uint64_t total)> progress = nullptr;
  // Called before the first byte is written, for each folder that a killed conversion to this output has left.
  std::function<void(const std::filesystem::path&)> left_behind = nullptr;
};

struct ConvertedTensor {
  TensorInfo info;
  std::string file = {};  // its name in the folder
  int layer = 0;
  std::string what = {};  // "q", "k", "q and k", "q norm", "k norm", "output"
  int q_heads = 0;        // heads of queries and of keys that the tensor has
  int k_heads = 0;
  int head_dim = 0;
  std::int64_t first = 0;  // element of a head where the rotated block begins
  int rotary_dim = 0;
};

struct ChangedKey {
  std::string key;     // a key of config.json, dotted: "text_config.rope_interleave"
  std::string before;  // its JSON; "" where the key was not there
  std::string after;
};

struct VerifiedLayer {
  std::string layer;  // "model.layers.3.self_attn"
  int tensors = 0;    // that were changed, and whose changes were undone again: all equal
};

struct ConvertResult {
  std::string model_type = {};
  Pairing from = Pairing::unset;
  Pairing to = Pairing::unset;
  bool dry_run = false;
  std::filesystem::path output = {};
  std::uint64_t bytes = 0;                    // the sum over all files to write
  std::vector<ConvertedTensor> tensors = {};  // that change
  std::size_t all_tensors = 0;                // in the input
  std::string config_file = {};               // "config.json", "params.json"
  std::vector<ChangedKey> config = {};        // changed keys
  std::vector<std::string> files = {};        // files of weights
  std::vector<std::string> copied = {};       // other files
  std::vector<std::string> left_out = {};     // files and folders ("original/") that would be in the wrong pairing
  std::vector<std::string> notes = {};        // one sentence each
  std::optional<std::vector<VerifiedLayer>> verified = std::nullopt;  // where it was asked for
};

// Converts, unless it is a dry run. The output appears whole or not at all. Before anything is written it throws PAIRING
// (in that pairing already, or unknown), MODEL_TYPE (a layout of projections or a type of adapter that is not known),
// TENSOR, SHAPE, DTYPE (a format that is not read, elements that are no whole bytes), CONFIG_VALUE, CONFIG_MISSING,
// ROPE, FILE, FORMAT (the input is a file), JSON and what read_config throws; then FILE and, of verify, CHECK.
ROTARY_API ConvertResult convert(const ConvertRequest&);

// The object that `rotary convert --json` prints. docs/convert.md describes its keys.
ROTARY_API std::string to_json(const ConvertResult&);

}  // namespace rotary
