// What a conversion changes, found and checked before anything is written.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "change.h"
#include "folder.h"
#include "heads.h"
#include "names.h"
#include "rotary/config.h"
#include "rotary/convert.h"

namespace rotary::conversion {

struct TensorPlan {
  std::size_t shard = 0;
  std::size_t entry = 0;  // in the shard's header
  TensorName name;
  Change change;
  Heads heads;
  std::size_t rope = 0;  // in model.ropes
};

struct Plan {
  Folder folder;
  Model model;
  TextPart text;                 // that is converted
  Pairing from = Pairing::half;  // half or interleaved
  Pairing to = Pairing::interleaved;
  std::vector<TensorPlan> tensors;  // in the order of the files
  std::string config_text;          // of the config's file
  std::vector<ChangedKey> config;
  std::vector<std::string> notes;
  bool indexers = false;     // there are sparse attention's indexers, which stay as they are
  bool own_indexer = false;  // because their key says another pairing than that of the attention

  const TensorInfo& info(const TensorPlan& tensor) const {
    return folder.shards[tensor.shard].header.header.entries[tensor.entry].info;
  }
};

// from: the pairing of the weights where neither their metadata nor the config says it right. Throws PAIRING (they have
// this pairing already), MODEL_TYPE (a layout of projections that is not known), TENSOR, SHAPE, DTYPE, FILE, FORMAT,
// JSON, and what read_config throws.
Plan make_plan(const std::filesystem::path& folder, Pairing to, std::optional<Pairing> from);

}  // namespace rotary::conversion
