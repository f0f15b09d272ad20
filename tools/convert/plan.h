// A conversion in the order of its steps: the files of a checkpoint, its text model, the change of each tensor, and the
// written result. Everything is found and checked before anything is written.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "change.h"
#include "models/families.h"
#include "rotary/convert.h"
#include "subject/names.h"
#include "tensors/safetensors_header.h"
#include "text/json.h"
#include "text/paths.h"
#include "values/fail.h"

namespace rotary::conversion {

using files::in_quotes;
using files::path_of;
using files::path_text;
using tools::Role;
using tools::TensorName;

// ---- folder.cpp: the files of a checkpoint ----

// An open .safetensors file.
struct Shard {
  std::string name;  // relative to the folder
  std::unique_ptr<files::InputFile> file;
  files::FileHeader header;

  const std::vector<files::Entry>& entries() const { return header.header.entries; }
};

Shard open_shard(const std::filesystem::path& file, const std::string& name = {});

Bytes bytes_of(const Shard&, std::size_t entry);  // a tensor's, by its number in the header

struct Folder {
  std::filesystem::path path;
  std::string config;    // config.json, or params.json of Mistral's native weights, whose pairing differs
  bool adapter = false;  // an adapter of PEFT, LoRA or DoRA, without weights of a model
  std::vector<Shard> shards = {};
  std::vector<std::string> others = {};      // files that are copied unchanged: indices, tokenizer ...
  std::vector<std::string> subfolders = {};  // folders of the other files, and empty folders
  std::vector<std::string> left_out = {};    // other forms of the weights, and their folders
};

// Opens a checkpoint and checks that every file of an index exists, is complete and holds the tensors that the index
// lists. Throws FILE, FORMAT, JSON, TENSOR, MODEL_TYPE (an adapter of another type than LORA).
Folder open_folder(const std::filesystem::path&);

// The value of a metadata key, which must be equal in all shards; "" if none has the key. Throws FORMAT.
std::string common_metadata(const Folder&, const char* key);

// ---- part.cpp: the text model of a config, and the place of its heads in projections ----

// The model whose projections are converted, with the facts of its config that a conversion needs.
struct TextPart {
  std::string path;  // "", "text_config"
  std::string model_type;
  files::AttentionFacts attention;
  files::Json keys;            // the part's object in the config
  files::Json quantization;    // the part's quantization_config, else the model's; null: none
  bool latent = false;         // MLA
  Indexer indexer;             // rotates from its first element; heads is 0 if there is none, or its pairing is its own
  bool beside_towers = false;  // the config also has an image, audio or speech model
  std::string pairing_key;     // the key of the pairing; "": the model_type decides
  bool has_own_code = false;   // the config has auto_map
  std::vector<std::string> other_parts;                   // parts whose ropes stay as they are
  std::vector<std::size_t> ropes;                         // one or more ropes of the part, as indices in Model::ropes
  std::vector<std::optional<std::size_t>> rope_of_layer;  // empty if the layer has none

  std::int64_t number(std::string_view key) const;  // a count, 0 if missing. Throws CONFIG_VALUE for others.
  std::string json(const std::string& key) const;   // "" if missing
  // Whether the layer, after the model's own or in another stack, drafts further tokens.
  bool is_drafting(const std::string& stack, int layer) const;
};

inline constexpr const char* indexer_key = "indexer_rope_interleave";

// Throws ROPE (no text model with a rope), MODEL_TYPE (an unknown layout, several text models),
// CONFIG_MISSING, CONFIG_VALUE.
TextPart text_part(const files::Json& config, const Model&);

// ---- heads.cpp: the heads in a tensor ----

// Heads along the permuted axis of a projection or a norm.
struct Heads {
  int q = 0, k = 0;                       // numbers of heads
  int dim = 0;                            // rows of a head
  RotatedBlock block = {};                // within a head
  std::int64_t rows = 0;                  // size of the axis
  std::vector<std::int64_t> starts = {};  // the first row of each head
};

// The heads of a tensor by the config. Throws TENSOR, SHAPE, MODEL_TYPE, CONFIG_MISSING, CONFIG_VALUE.
Heads heads_in(const TensorInfo&, const TensorName&, const ModelRope&, const TextPart&);
// `count` heads of queries, each in `stride` rows.
Heads of_queries(const ModelRope&, int count, std::int64_t stride);
Heads heads_of_indexer(Role, const ModelRope&, const TextPart&);
std::shared_ptr<const Sources> order_of(const Heads&, Pairing to);  // throws SHAPE

// ---- suffixes.cpp: the change of a part of a projection or a norm, by the suffix of its name ----

struct Projection {
  std::shared_ptr<const Sources> sources;                      // sources of its output
  std::function<const TensorInfo*(std::string_view)> part_of;  // its tensor with that suffix, or null
  bool fused = false;                                          // q, k and v are one projection
  files::Json quantization = {};                               // quantization_config, or null
};

// The change of a tensor; empty if it does not change: lora_A, a single scale, a tensor without elements. Throws SHAPE
// (the output's size is no dimension of the tensor), TENSOR (an unknown suffix; scales shared by rows that must part),
// DTYPE (an unsupported format or packing; elements of less than a byte), CONFIG_VALUE (bits, weight_block_size).
std::optional<Change> change_of(const TensorInfo&, std::string_view suffix, const Projection&);

// ---- plan.cpp: what a conversion changes ----

struct TensorPlan {
  std::size_t shard = 0, entry = 0;  // entry: in the shard's header
  Change change = {};
  ConvertedTensor shown = {};
  TensorName name = {};
};

struct Plan {
  Folder folder;
  Model model = {};
  TextPart text = {};            // the part that is converted
  Pairing from = Pairing::half;  // half or interleaved
  Pairing to = Pairing::interleaved;
  std::vector<TensorPlan> tensors = {};  // in the order of the files
  std::string config_text = {};          // the text of the config's file
  std::vector<ChangedKey> config = {};
  std::vector<std::string> notes = {};
  bool own_indexer = false;  // the indexers stay, because their key has another pairing than the attention
};

// The metadata key, beside files::pairing_key and files::part_key, of converted files whose indexers have stayed,
// because the config's key has another pairing for them than the attention had. Its value is "true".
inline constexpr const char* own_indexer_key = "rotary.own_indexer";

// from: the pairing of the weights, if neither their metadata nor the config has it right. Throws PAIRING (they already
// have this pairing), MODEL_TYPE (an unknown layout of projections), TENSOR, SHAPE, DTYPE, FILE, FORMAT,
// JSON, and what read_config throws.
Plan make_plan(const std::filesystem::path& folder, Pairing to, std::optional<Pairing> from);

// ---- write.cpp: a converted checkpoint, and the check of its bytes ----

std::uint64_t bytes_to_write(const Plan&);

// The folders left behind by killed conversions to this output.
std::vector<std::filesystem::path> left_behind(const std::filesystem::path& output);

// Writes all files into a folder beside output, named like output with ".partial-" and the process's number, calls
// check with it, and renames it to output. If anything fails, it removes the partial folder and rethrows the error.
// progress gets the bytes of each piece. Throws FILE before the first byte if output cannot be made: it exists and is
// no empty folder, its parent is missing, or the disk has no room.
void write_folder(const Plan&, const std::filesystem::path& output, const std::function<void(std::uint64_t)>& progress,
                  const std::function<void(const std::filesystem::path& partial)>& check);

// Reads every changed tensor of the converted folder, or without a folder computes it, applies the inverse change and
// compares the bytes with those of the source. A plan with wrong rows passes too: plans are tested by
// tools/tests/convert_transformers.py. Throws CHECK (a tensor differs), FILE, FORMAT, TENSOR.
std::vector<VerifiedLayer> verify(const Plan&, const std::optional<std::filesystem::path>& converted,
                                  const std::function<void(std::uint64_t done, std::uint64_t layers)>& progress);

}  // namespace rotary::conversion
