// Permutes a checkpoint's q and k projections from one pairing to the other; no value changes. docs/convert.md lists
// the families and formats. Link rotary_tools.
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
  // A folder with config.json and model.safetensors, shards and their index, or an adapter of PEFT.
  std::filesystem::path input = {};
  std::filesystem::path output = {};  // a folder that does not exist or is empty; a dry run ignores it
  Pairing to = Pairing::unset;        // half or interleaved; required
  std::optional<Pairing> from = std::nullopt;  // the pairing of the input; not set: from the metadata, else the config
  bool dry_run = false;                        // writes nothing
  bool verify = false;                         // undoes the change and compares the bytes

  // Called between pieces, with the number of bytes written or layers verified, and of all. If it throws, the
  // conversion stops and leaves nothing behind.
  std::function<void(bool verifying, std::uint64_t done, std::uint64_t total)> progress = nullptr;
  // Called before anything is written, for each folder that a killed conversion to this output has left behind.
  std::function<void(const std::filesystem::path&)> left_behind = nullptr;
};

struct ConvertedTensor {
  TensorInfo info;
  std::string file = {};  // name of the file in the folder
  int layer = 0;
  std::string what = {};  // "q", "k", "q and k", "q norm", "k norm", "output"
  int q_heads = 0;        // numbers of heads of q and of k in the tensor
  int k_heads = 0;
  int head_dim = 0;
  std::int64_t first = 0;  // element of a head where the rotated block begins
  int rotary_dim = 0;
};

struct ChangedKey {
  std::string key;     // a key of config.json, dotted: "text_config.rope_interleave"
  std::string before;  // JSON; "" if the key was absent
  std::string after;
};

struct VerifiedLayer {
  std::string layer;  // "model.layers.3.self_attn"
  int tensors = 0;    // number of tensors whose change was undone: all were equal
};

struct ConvertResult {
  std::string model_type = {};
  Pairing from = Pairing::unset;
  Pairing to = Pairing::unset;
  bool dry_run = false;
  std::filesystem::path output = {};
  std::uint64_t bytes = 0;                    // the sum over all files to write
  std::vector<ConvertedTensor> tensors = {};  // the tensors that change
  std::size_t all_tensors = 0;                // number of tensors in the input
  std::string config_file = {};               // "config.json", "params.json"
  std::vector<ChangedKey> config = {};        // changed keys
  std::vector<std::string> files = {};        // files of weights
  std::vector<std::string> copied = {};       // other files
  std::vector<std::string> left_out = {};     // files and folders in the wrong pairing ("original/"); links to no file
  std::vector<std::string> notes = {};        // one sentence each
  std::optional<std::vector<VerifiedLayer>> verified = std::nullopt;  // if verify was set
};

// Converts, unless it is a dry run. The output appears whole or not at all. Before it writes anything it throws PAIRING
// (already in that pairing, or unknown), MODEL_TYPE (an unknown layout of projections or type of adapter), TENSOR,
// SHAPE, DTYPE (an unsupported format, elements of less than a byte), CONFIG_VALUE, CONFIG_MISSING, ROPE, FILE, FORMAT
// (the input is a file), JSON and what read_config throws; later FILE, and CHECK if verify fails.
ROTARY_API ConvertResult convert(const ConvertRequest&);

// The object that `rotary convert --json` prints. docs/convert.md describes its keys.
ROTARY_API std::string to_json(const ConvertResult&);

// ---- two checkpoints -----------------------------------------------------------------------------

// The order of a tensor's rows in the second checkpoint, compared with the first. A tensor whose rows are all equal,
// such as a norm of ones, counts as same and as reordered.
enum class RowOrder : std::uint8_t {
  same,
  reordered,       // as convert does from the pairing of the first
  reordered_back,  // by the inverse permutation
  other,           // other values, or another shape
  missing,         // only one checkpoint has the tensor
};
ROTARY_API const char* name(RowOrder) noexcept;

struct ComparedTensor {
  std::string name;
  std::string what = {};  // "q", "k norm" ... as ConvertedTensor::what; "" if convert does not change it
  RowOrder order = RowOrder::other;
};

struct ComparedCheckpoints {
  Pairing from = Pairing::unset, to = Pairing::unset;  // the pairing of the first checkpoint, and the other pairing
  // same or reordered, if every tensor of q and k is so and all other tensors are the same; else not set
  std::optional<RowOrder> order = {};
  std::vector<ComparedTensor> tensors = {};  // all tensors of q and k, and the others that differ
  std::size_t same_others = 0;               // number of the other tensors that are the same in both
  bool equal() const noexcept { return order.has_value(); }
  ROTARY_API std::string sentence() const;
};

// Compares the tensors of two checkpoints: of one before and after a conversion, or of two conversions. second may
// also be a single file. from: the pairing of the first, as in ConvertRequest. If a tensor has different float types in
// them, it may differ by the rounding of the coarser one. Throws what convert throws before it writes.
ROTARY_API ComparedCheckpoints compare_checkpoints(const std::filesystem::path& first,
                                                   const std::filesystem::path& second, std::optional<Pairing> from);
ROTARY_API std::string to_json(const ComparedCheckpoints&);

}  // namespace rotary
