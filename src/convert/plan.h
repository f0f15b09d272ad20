// What a conversion changes, found and checked before anything is written, and what becomes of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "folder.h"
#include "projections.h"
#include "rotary/convert.h"

namespace rotary::conversion {

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
