// From one order of elements to another, without a change of any value: the q and k projections of a checkpoint, the
// keys of a KV cache, and tables of cos and sin. docs/convert.md says which formats are read. Link rotary_tools.
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

enum class ConvertKind : std::uint8_t {
  checkpoint,  // a folder: config.json with model.safetensors, its shards and index, or an adapter of PEFT
  keys,        // a file with the keys of a KV cache
  table,       // a file with a table of cos and sin
};

// The forms in which frameworks have tables of cos and sin.
enum class TableForm : std::uint8_t {
  pairs,    // cos and sin [..., pairs]
  doubled,  // cos and sin [..., 2 pairs], each value twice: Hugging Face, in the order of the pairing
  joined,   // cos_sin [..., 2 pairs], cos before sin: vLLM
  complex,  // freqs_cis [..., pairs, 2], or C64 [..., pairs]: Meta
};
ROTARY_API const char* name(TableForm) noexcept;               // "pairs", "doubled", "joined", "complex"
ROTARY_API TableForm parse_table_form(std::string_view word);  // throws VALUE

struct TableOrder {
  TableForm form = TableForm::pairs;
  Pairing pairing = Pairing::unset;  // of doubled: the order in which it repeats its values; unset where any fits
};

struct ConvertRequest {
  std::filesystem::path input = {};
  std::filesystem::path output = {};  // of a checkpoint a folder that is not there or empty; not read by a dry run
  // half or interleaved. Required but for a table whose form says no pairing.
  std::optional<Pairing> to = std::nullopt;
  std::optional<Pairing> from = std::nullopt;  // the pairing before; none: as the metadata say, else the config
  bool dry_run = false;                        // writes nothing
  bool verify = false;                         // of a checkpoint: undoes the change again and compares the bytes

  // Of keys: the model that they are of, or the size of a head and the block that rotates in it, in elements.
  std::optional<Model> model = std::nullopt;
  int head_dim = 0;                       // read where there is no model; from 2
  int rotary_dim = 0;                     // even; 0: head_dim
  int first = 0;                          // first + rotary_dim is at most head_dim
  std::vector<std::string> tensors = {};  // names of the keys; empty: all that are named so, as "layers.0.key"

  std::optional<TableForm> form = std::nullopt;  // of a table to write; none: as in the input

  // Called between pieces, with bytes written of all, or layers verified of all. What it throws stops the conversion,
  // of which nothing is left then.
  std::function<void(bool verifying, std::uint64_t done, std::uint64_t total)> progress = nullptr;
  // Called before the first byte is written, for each folder that a killed conversion to this output has left.
  std::function<void(const std::filesystem::path&)> left_behind = nullptr;
};

struct ConvertedTensor {
  TensorInfo info;
  std::string file = {};  // of a checkpoint, its name in the folder
  int layer = 0;          // of a checkpoint
  std::string what = {};  // "q", "k", "q and k", "q norm", "k norm", "output"; "" of keys and tables
  int q_heads = 0;        // of a checkpoint: heads of queries and of keys that the tensor has
  int k_heads = 0;
  int head_dim = 0;
  std::int64_t first = 0;  // element of a head where the rotated block begins
  int rotary_dim = 0;
};

struct ChangedKey {
  std::string key;     // of config.json, dotted: "text_config.rope_interleave"
  std::string before;  // as written there; "": it was not there
  std::string after;   // "": it is taken away
};

struct VerifiedLayer {
  std::string layer;  // "model.layers.3.self_attn"
  int tensors = 0;    // that were changed, and whose changes were undone again: all equal
};

struct ConvertResult {
  ConvertKind kind = ConvertKind::checkpoint;
  bool dry_run = false;
  std::filesystem::path output = {};
  Pairing from = Pairing::unset;  // of a checkpoint and of keys
  Pairing to = Pairing::unset;
  std::vector<ConvertedTensor> tensors = {};  // that change; of a table, that are written
  std::size_t all_tensors = 0;                // of the input

  TableOrder table_from = {};  // of a table
  TableOrder table_to = {};

  // Of a checkpoint.
  std::string model_type = {};
  std::uint64_t bytes = 0;                 // of all files to write
  std::string config_file = {};            // "config.json", "params.json"
  std::vector<ChangedKey> config = {};     // changed keys
  std::vector<std::string> files = {};     // of weights
  std::vector<std::string> copied = {};    // other files
  std::vector<std::string> left_out = {};  // files and folders ("original/") that would be in the wrong pairing
  std::vector<std::string> notes = {};     // one sentence each
  std::optional<std::vector<VerifiedLayer>> verified = std::nullopt;  // where it was asked for
};

// The kind of an input. as_table: whatever the names of its tensors. Throws FILE, FORMAT (no such file; a checkpoint's
// file, which is named by its folder).
ROTARY_API ConvertKind convert_kind(const std::filesystem::path& input, bool as_table = false);
// The form that a file's table has, by names, shapes, values and metadata. Throws FILE, FORMAT, TENSOR, SHAPE, DTYPE.
ROTARY_API TableOrder table_order(const std::filesystem::path&);

// Converts, unless it is a dry run. A checkpoint appears whole or not at all, as does a file. Before anything is
// written it throws PAIRING (in the other pairing or form already, or unknown), MODEL_TYPE (a layout of projections or
// a type of adapter that is not known), TENSOR, SHAPE, DTYPE (a format that is not read, elements that are no whole
// bytes), CONFIG_VALUE, CONFIG_MISSING, ROPE, FILE, FORMAT, JSON and what read_config throws; then FILE and, of verify,
// CHECK.
ROTARY_API ConvertResult convert(const ConvertRequest&);

// The object that `rotary convert --json` prints. docs/convert.md describes its keys.
ROTARY_API std::string to_json(const ConvertResult&);

}  // namespace rotary
