// A conversion in the order of its steps: the files of a checkpoint, its text model, how each tensor changes, and what
// becomes of it. Everything is found and checked before anything is written.
#pragma once

#include <filesystem>
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
  std::vector<Shard> shards = {};
  std::vector<std::string> others = {};      // files that are copied as they are: indices, tokenizer ...
  std::vector<std::string> subfolders = {};  // the others' folders, and empty ones
  std::vector<std::string> left_out = {};    // other forms of the weights, and folders
};

// Opens a checkpoint and checks it: that every file of an index is there, whole, and holds the tensors that the index
// says. Throws FILE, FORMAT, JSON, TENSOR, MODEL_TYPE (an adapter of another type than LORA).
Folder open_folder(const std::filesystem::path&);

// The value of a metadata key, which all shards must have in common; "": none has it. Throws FORMAT.
std::string common_metadata(const Folder&, const char* key);

// ---- part.cpp: the text model of a config, where its heads are in the tensors of its projections ----

// The model whose projections are converted, and what a conversion needs of its config.
struct TextPart {
  std::string path;  // "", "text_config"
  std::string model_type;
  files::AttentionFacts attention;
  files::Json keys;            // its object in the config
  files::Json quantization;    // its quantization_config, else the model's; null: there is none
  bool latent = false;         // MLA
  Indexer indexer;             // rotates from its first element; heads 0: there is none, or its pairing is its own
  bool beside_towers = false;  // the config has an image, audio or speech model too
  std::string pairing_key;     // that says the pairing; "": the model_type does
  bool has_own_code = false;   // auto_map
  std::vector<std::string> other_parts;                   // with ropes that are left as they are
  std::vector<std::size_t> ropes;                         // the part's, one or more, by their index in Model::ropes
  std::vector<std::optional<std::size_t>> rope_of_layer;  // empty if the layer has none

  std::int64_t number(std::string_view key) const;  // the config's number; 0 where it has none
  std::string json(const std::string& key) const;   // "" where it has none
  // Whether the layers stand behind the model's own, or in another stack, to draft further tokens.
  bool is_drafting(const std::string& stack, int layer) const;
};

inline constexpr const char* indexer_key = "indexer_rope_interleave";

// Throws ROPE (no text model with a rope), MODEL_TYPE (a layout that is not known, several text models),
// CONFIG_MISSING.
TextPart text_part(const files::Json& config, const Model&);

// ---- heads.cpp: the heads in a tensor ----

// Heads along the permuted axis of a projection or a norm.
struct Heads {
  int q = 0, k = 0;                       // heads of queries and of keys
  int dim = 0;                            // rows of a head
  RotatedBlock block = {};                // in a head
  std::int64_t rows = 0;                  // along the axis
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
  std::shared_ptr<const Sources> sources;                      // its output's sources
  std::function<const TensorInfo*(std::string_view)> part_of;  // its tensor of that suffix; null: it has none
  bool fused = false;                                          // q, k and v in one
  files::Json quantization = {};                               // quantization_config; null: there is none
};

// The change of a tensor; empty where it has none, as lora_A, a single scale, or one without elements. Throws SHAPE
// (the output's size is no dimension of the tensor), TENSOR (an unknown suffix; scales that rows cannot leave), DTYPE
// (a format or a packing that is not read; elements that are no whole bytes), CONFIG_VALUE (bits, weight_block_size).
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
  TextPart text = {};            // that is converted
  Pairing from = Pairing::half;  // half or interleaved
  Pairing to = Pairing::interleaved;
  std::vector<TensorPlan> tensors = {};  // in the order of the files
  std::string config_text = {};          // the text of the config's file
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
