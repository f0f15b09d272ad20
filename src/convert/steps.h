// The steps of a conversion, in the order in which a checkpoint takes them: its files, the text model of its config,
// what the names of its tensors say, where the heads are in each, how each changes, and the bytes that are written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/models/families.h"
#include "files/tensors/safetensors_header.h"
#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary/config.h"
#include "rotary/convert.h"
#include "rotary/tensors.h"
#include "tools/names.h"

namespace rotary::conversion {

using files::is_listed;
using tools::contains_word;
using tools::is_cross_attention;
using tools::is_draft;
using tools::is_independent;
using tools::is_named_text;
using tools::is_of_another_model;
using tools::parse_name;
using tools::Role;
using tools::TensorName;

inline constexpr const char* operation = "convert";

// ---- folder.cpp: the files ----

// One .safetensors file, open.
struct Shard {
  std::string name;  // in the folder
  std::unique_ptr<files::InputFile> file;
  files::FileHeader header;

  const std::vector<files::Entry>& entries() const { return header.header.entries; }
};

Shard open_shard(const std::filesystem::path& file, const std::string& name = {});

struct Folder {
  std::filesystem::path path;
  std::string config;    // config.json, or params.json of Mistral's native form
  bool adapter = false;  // an adapter of PEFT, LoRA or DoRA, and no weights of a model
  std::vector<Shard> shards;
  std::vector<std::string> others;      // files that are copied as they are: indices, tokenizer ...
  std::vector<std::string> subfolders;  // of the others, and empty ones
  std::vector<std::string> left_out;    // other forms of the weights, and folders
};

// Opens a checkpoint and checks it: that every file of an index is there, whole, and holds the tensors that the index
// says. Throws FILE, FORMAT, JSON, TENSOR, MODEL_TYPE (an adapter of another type than LORA).
Folder open_folder(const std::filesystem::path&);

// The value of a metadata key, which all shards must have in common; "": none has it. Throws FORMAT.
std::string common_metadata(const Folder&, const char* key);

// ---- part.cpp: the text model of a config, whose projections are converted ----

inline constexpr const char* indexer_key = "indexer_rope_interleave";

struct TextPart {
  std::string path;  // "", "text_config"
  files::Json json;  // the part's object
  std::string model_type;
  files::AttentionFacts attention;
  files::Json quantization;    // its quantization_config, else the model's; null: there is none
  bool latent = false;         // MLA
  Indexer indexer;             // rotates from its first element; heads 0: there is none, or its pairing is its own
  bool beside_towers = false;  // the config has an image, audio or speech model too
  std::string pairing_key;     // the key of the config that says the pairing; empty: the model_type does
  std::vector<std::string> other_parts;                   // with ropes that are left as they are
  std::vector<std::size_t> ropes;                         // of the part, one or more, in Model::ropes
  std::vector<std::optional<std::size_t>> rope_of_layer;  // empty: it has none

  std::int64_t integer(const std::string& key) const;  // 0: there is none
  bool flag(const std::string& key, bool default_value) const;
  // Whether the layers stand behind the model's own, or in another stack, to draft further tokens.
  bool is_drafting(const std::string& stack, int layer) const;
};

// Throws ROPE (no text model with a rope), MODEL_TYPE (a layout that is not known, several text models).
TextPart text_part(const files::Json& config, const Model&);

// ---- change.cpp: the permutation of a tensor, and its changed bytes piece by piece ----

// A permutation of the elements of an axis: out[i] = in[sources[i]].
using Sources = std::vector<std::uint32_t>;

// 2 * pairs elements of an axis, which rotate as one block of a head.
struct RotatedBlock {
  std::int64_t first = 0;
  int pairs = 0;
};

Sources unchanged(std::int64_t elements);
// Moves the elements of a block from the other pairing to this one, half or interleaved:
//   half[j] = interleaved[2 j], half[pairs + j] = interleaved[2 j + 1], j < pairs.
void reorder(Sources&, RotatedBlock, Pairing to);

// The elements that the permuted axis has in a tensor.
enum class Axis : std::uint8_t {
  rows,            // the leading dimensions: each row is one contiguous block of bytes
  columns,         // elements of the last dimension
  packed_columns,  // numbers of `bits` bits in the 32-bit words of the last dimension, the lowest bits first
  awq_columns,     // as packed_columns, 4 bits in AWQ's order: 0 2 4 6 1 3 5 7 from the lowest bits
  packed_rows,     // numbers of `bits` bits in the 32-bit words of the first of two dimensions
};

struct Change {
  Axis axis = Axis::rows;
  int bits = 0;  // of a packed number: 2, 3, 4 or 8
  std::shared_ptr<const Sources> sources = nullptr;
};

// The change that undoes this one.
Change inverse(const Change&);

constexpr bool can_be_packed(std::int64_t bits) noexcept { return bits == 2 || bits == 3 || bits == 4 || bits == 8; }

// Rule 1: only whole bytes change their place. bits: of one element that moves. Throws DTYPE.
void check_whole_bytes(const TensorInfo&, std::uint64_t bits);
// Rule 2: the permuted axis has as many elements in the tensor as in the permutation; packed numbers are I32 words that
// they fill exactly.
bool has_size(const TensorInfo&, const Change&);

// Reads bytes [offset, offset + out.size()) of a tensor.
using Reader = std::function<void(std::uint64_t offset, std::span<std::byte> out)>;
using files::Sink;

// The tensor's bytes after the change, in order. The tensor obeys both rules. At most two megabytes, or two copies of
// the rows that a rotated block spans, or of a row of packed numbers, are in memory; of packed_rows, two copies of the
// tensor.
void stream_changed(const TensorInfo&, const Change&, const Reader&, const Sink&);

// The same of a tensor in memory.
using Bytes = std::vector<std::byte>;
Bytes changed(const TensorInfo&, const Change&, const Bytes&);

// ---- heads.cpp: where the heads are in a tensor ----

// Heads along the permuted axis of a projection or a norm.
struct Heads {
  int q = 0, k = 0;                       // heads of queries and of keys
  int dim = 0;                            // rows of a head
  RotatedBlock block = {};                // in a head
  std::int64_t rows = 0;                  // of the axis
  std::vector<std::int64_t> starts = {};  // the first row of each head
};

// By the config. Throws TENSOR, SHAPE, MODEL_TYPE, CONFIG_MISSING.
Heads heads_in(const TensorInfo&, const TensorName&, const ModelRope&, const TextPart&);
// `count` heads of queries, each in `stride` rows.
Heads of_queries(const ModelRope&, int count, std::int64_t stride);
Heads heads_of_indexer(Role, const ModelRope&, const TextPart&);
// Heads that begin every `stride` rows and fill the axis.
Heads evenly_spaced(Heads, int count, std::int64_t stride);
std::shared_ptr<const Sources> order_of(const Heads&, Pairing to);

// ---- suffixes.cpp: how a part of a projection or a norm changes, by the end of its name ----

struct Projection {
  std::shared_ptr<const Sources> sources;                      // of its output
  std::function<const TensorInfo*(std::string_view)> part_of;  // its tensor of that suffix; null: it has none
  bool fused = false;                                          // q, k and v in one
  files::Json quantization = {};                               // quantization_config; null: there is none
};

// Empty: the tensor does not change, as lora_A, a single scale, or one without elements. Throws SHAPE (the output's
// size is no dimension of the tensor), TENSOR (an unknown suffix; scales that rows cannot leave), DTYPE (a format or a
// packing that is not read; elements that are no whole bytes), CONFIG_VALUE (bits, weight_block_size).
std::optional<Change> change_of(const TensorInfo&, std::string_view suffix, const Projection&);

// ---- plan.cpp: what a conversion changes, found and checked before anything is written ----

struct TensorPlan {
  std::size_t shard = 0, entry = 0;  // entry: in the shard's header
  Change change = {};
  ConvertedTensor shown = {};
  TensorName name = {};
  std::size_t rope = 0;  // in Plan::model
};

struct Plan {
  Folder folder;
  Model model = {};
  TextPart text = {};            // that is converted
  Pairing from = Pairing::half;  // half or interleaved
  Pairing to = Pairing::interleaved;
  std::vector<TensorPlan> tensors = {};  // in the order of the files
  std::string config_text = {};          // of the config's file
  std::vector<ChangedKey> config = {};
  std::vector<std::string> notes = {};
  bool own_indexer = false;  // the indexers stay: their key says another pairing than that of the attention
};

// The metadata key of converted files, beside files::pairing_key and files::part_key, whose indexers have stayed: the
// key of the config says another pairing for them than that of the attention had. Its value is "true".
inline constexpr const char* own_indexer_key = "rotary.own_indexer";

// from: the pairing of the weights where neither their metadata nor the config says it right. Throws PAIRING (they have
// this pairing already), MODEL_TYPE (a layout of projections that is not known), TENSOR, SHAPE, DTYPE, FILE, FORMAT,
// JSON, and what read_config throws.
Plan make_plan(const std::filesystem::path& folder, Pairing to, std::optional<Pairing> from);

// ---- write.cpp: a converted checkpoint, and the check of its bytes ----

std::uint64_t bytes_to_write(const Plan&);

// The folders that conversions to this output left when they were killed.
std::vector<std::filesystem::path> left_behind(const std::filesystem::path& output);

// Writes all files into a folder beside output, whose name is output's with ".partial-" and the process's number; calls
// check with it; renames it to output. Where anything fails, the partial folder is removed and the error thrown on.
// progress: of the bytes of each piece. Throws FILE before the first byte if output cannot be made: it is there and not
// an empty folder, its parent is missing, or the disk has no room.
void write_folder(const Plan&, const std::filesystem::path& output, const std::function<void(std::uint64_t)>& progress,
                  const std::function<void(const std::filesystem::path& partial)>& check);

// Reads every changed tensor of the converted folder, applies the inverse of its change and compares the bytes with
// those of the source; without a folder, of the tensors as they would be written. A plan that takes the wrong rows
// passes: tools/convert_transformers.py is the proof of a plan. Throws CHECK (a tensor differs), FILE, FORMAT, TENSOR.
std::vector<VerifiedLayer> verify(const Plan&, const std::optional<std::filesystem::path>& converted,
                                  const std::function<void(std::uint64_t done, std::uint64_t layers)>& progress);

}  // namespace rotary::conversion
