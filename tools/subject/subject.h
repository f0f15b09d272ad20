// The subject of apply, table, golden, check and diagnose: which rope rotates tensors, which block of which heads, in
// which layout and at which positions. It is found from a model, the names and shapes of tensors, and a Choice.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "names.h"
#include "rotary/choice.h"
#include "rotary/config.h"
#include "rotary/tensors.h"
#include "rotary/threads.h"

namespace rotary::tools {

// The block and the heads are those of the rope: used->first, used->rope.rotary_dim, used->heads, used->kv_heads.
struct Subject {
  const ModelRope* used = nullptr;            // null: nothing says which rope is asked for
  std::vector<const ModelRope*> rivals = {};  // where nothing chooses: the model's ropes that fit the tensor
  bool chosen = false;                        // by the choice or by the layer, not by default
  bool turns = true;                          // false: its layer has no rope; used is the rope of another layer
  std::optional<int> layer = {};              // not set: the model does not list it, or a rope was chosen
  QueryScale scale = {};                      // multiplies the layer's queries, if that was asked for
  std::vector<std::size_t> tensors = {};      // numbers of the tensors that it is about
  std::vector<const ModelRope*> beside = {};  // the other blocks_of used, which this subject leaves alone
  std::optional<std::int64_t> length = {};    // for scalings that depend on it; default: largest position + 1
  std::optional<PositionSet> positions = {};  // default: 0, 1, 2, ... for a rope of text, else unknown
  std::int64_t context = 0;                   // context of the rope's part; 0 if unknown
  bool places_unknown = false;                // no positions, and the rope turns by coordinates of images
  std::string layout = {};                    // as chosen; empty: found from the tensor
  std::string layout_of_heads = {};           // layout chosen for the whole file; empty: chosen for each tensor
  Role role = Role::other;                    // the role of the tensor, which says whose heads it has
  std::vector<std::int64_t> head_rows = {};   // for each head its row of the frequencies; empty: rows are shared evenly
  const Executor* executor = &serial();
  std::function<void()> step = [] {};  // called after each quarter of the work on the tensor

  // The length of the sequence if the longest tensor has that many tokens. Positions must be set.
  std::int64_t length_for(std::int64_t tokens) const;
  // Whether a tensor of that last dimension holds only the rotated block, like the k of MLA.
  bool is_bare(std::int64_t last_dimension) const noexcept;
  int head_dim_of(const TensorInfo&) const noexcept;  // 0 without a rope: use the last dimension
  // The rope's numbers of heads for a tensor: of q, of k, or of both if the role is unknown.
  std::vector<std::int64_t> head_counts(bool bare) const;
  // 2: the heads are the rope's; 1: they may be a shard of them, or the rope's are unknown; 0: neither.
  int plausibility(const Layout&) const;
};

// The subject for a tensor: its rope is the chosen one, else that of the layer in the tensor's name, else the model's
// first, and the first of several blocks. Without a tensor: the chosen rope, else the first. It has the length and
// layout of the choice, and no positions: positions_of finds them. Throws ROPE (no rope, or not that one; a named layer
// that the model does not list, or that several ropes have), and what query_scale_of throws.
Subject subject_of(const Model&, const Choice&, const TensorInfo* = nullptr);
// The subjects of tensors to rotate: one for each rope, in the order of their first tensors, and one for each block if
// no rope was chosen. Tensors of layers without a rope are in no subject, except queries that are multiplied.
std::vector<Subject> subjects_of(const Model&, const Choice&, std::span<Tensor* const>);
// Merges the subjects of one rope into one with all tensors.
std::vector<Subject> merged(const std::vector<Subject>&);
// The rope of a layer, null if the layer has none (NoPE), the first of blocks_of. It is the text's rope, unless the
// width or the name of the tensor shows another part. Empty if the model does not list the layer, or several ropes
// remain.
std::optional<const ModelRope*> rope_of_layer(const Model&, int layer, const TensorInfo* tensor = nullptr);
// This rope and the others that rotate the same heads, each in a block of its own (Allegro, Gemma 4's tower).
std::vector<const ModelRope*> blocks_of(const Model&, const ModelRope&);
// Whether the tensor's heads are the rope's: whole, the bare block, or flat.
bool fits_width(const TensorInfo&, const ModelRope&);
// The tensor's last dimension, which is head_dim for whole heads; 0 without dimensions.
int last_dimension(const TensorInfo&);
// The rope of the indexer beside the attention of that rope, if the tensor belongs to the indexer by its name
// ("indexer.wq_b", "index_k"), or by heads of the indexer's width that are not the attention's.
std::optional<ModelRope> rope_of_indexer(const Model&, const TensorInfo&, const ModelRope& attention);

// ---- layouts -------------------------------------------------------------------------------------

// The dimensions of a tensor as batch, tokens, heads and head_dim.
struct Reading {
  std::string word;  // one of files::layout_words
  Layout layout;
};
// All readings of a tensor of that shape, whose last dimension is head_dim, the most common first.
std::vector<Reading> readings_of(const std::vector<std::int64_t>& shape);

struct Readings {
  std::vector<Reading> tensors;       // one for each tensor
  std::vector<std::string> notes;     // sentences on questions that the heads leave open
  std::vector<std::string> warnings;  // reasons against the chosen layout
};
// The readings of tensors of one subject by their names and shapes, and by the rope's heads, if known. Reads tensors by
// the subject's layout, or without one by their dimensions: bthd, thd, [heads, head_dim] of one token, or
// [..., heads * head_dim] if the rope has the heads. Without a chosen layout, a layout is refused if the config's heads
// contradict it and another layout fits: if its number of heads is neither the config's nor a divisor of it, as in a
// shard, or is smaller while the other layout has exactly the config's. A single head contradicts nothing. Throws
// SHAPE.
Readings read_heads(std::span<const Tensor* const> tensors, const Subject&);
// The common layout of the tensors of one file, whose own layouts are `found`: the word with which most of them have
// the heads of the rope. Empty if none is best, or only one was found.
std::string common_layout(std::span<const TensorInfo> tensors, const std::vector<std::string>& found, const Subject&);
// The rope with the heads of a shard, if exactly one layout gives q and k of a file heads in the rope's ratio.
ModelRope shard_of(const ModelRope&, std::span<const TensorInfo> tensors);

}  // namespace rotary::tools
