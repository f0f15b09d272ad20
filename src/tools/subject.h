// The subject of apply, check, diagnose and table: which rope, which block of which heads, in which layout, at which
// positions; found from a model and from the names and shapes of tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "names.h"
#include "rotary/config.h"
#include "rotary/positions.h"
#include "rotary/tensors.h"
#include "rotary/threads.h"

namespace rotary::tools {

// The block and the heads are those of the rope: used->first, used->rope.rotary_dim, used->heads, used->kv_heads.
struct Subject {
  const ModelRope* used = nullptr;            // none: nothing says what is asked
  std::optional<std::int64_t> length = {};    // for scalings that depend on it; none: the largest position + 1
  std::optional<PositionSet> positions = {};  // none: with a rope of tokens in a text 0, 1, 2, ...; else unknown
  std::vector<const ModelRope*> beside = {};  // blocks_of used, but for itself: their elements are another question
  bool places_unknown = false;                // no positions, and the rope does not count tokens: coordinates of images
  std::string layout = {};                    // as written; empty: found
  std::string layout_of_heads = {};  // that the heads of all tensors of a file fit; empty: those of this tensor decide
  Role role = Role::other;         // whose heads the tensor's are to be
  std::vector<std::int64_t> head_rows = {};  // of the rope's frequencies, of each head; empty: evenly those of the rope
  const Executor* executor = &serial();
  std::function<void()> step = [] {};  // called when a quarter of the work on the tensor is done

  // Whether a tensor of that last dimension holds the rotated block alone, as the k of MLA.
  bool is_bare(std::int64_t last_dimension) const noexcept;
  int head_dim_of(const TensorInfo&) const noexcept;  // 0 without a rope: that of the last dimension
  // The rope's own numbers of heads for a tensor: of q, of k, or of both where the role is unknown.
  std::vector<std::int64_t> head_counts(bool bare) const;
  // 2: the heads are those of the rope; 1: they could be a shard of them, or are not known; 0: neither.
  int plausibility(const Layout&) const;
};

// model.ropes[rope], by default the first. config: its name in sentences, or "". Throws ROPE.
const ModelRope& chosen_rope(const Model&, std::optional<int> rope, const std::string& config);
// The rope of a layer: null where the layer has none (NoPE). The text's, unless the width or the name of the tensor
// says that it is of another part; the first of blocks_of. Empty where the model does not list the layer, or several
// ropes remain.
std::optional<const ModelRope*> rope_of_layer(const Model&, int layer, const TensorInfo* tensor = nullptr);
// The same of a layer that somebody names. Throws ROPE where rope_of_layer is empty.
const ModelRope* named_layer(const Model&, int layer, const TensorInfo* tensor = nullptr);
// The ropes that turn heads of the same layers together, each a block of its own (Allegro, Gemma 4's tower): this one,
// and those beside it.
std::vector<const ModelRope*> blocks_of(const Model&, const ModelRope&);
// The notes that concern the rope, without those on other parts of the model.
std::vector<std::string> notes_on(const Model&, const ModelRope&);
// Whether the tensor's heads are the rope's: whole, the bare block, or flat.
bool fits_width(const TensorInfo&, const ModelRope&);
// The rope of the indexer beside the attention of that rope, where the tensor is the indexer's: by its name
// ("indexer.wq_b", "index_k"), or by heads of its width that are not the attention's.
std::optional<ModelRope> rope_of_indexer(const TensorInfo&, const ModelRope& attention);

// ---- layouts -------------------------------------------------------------------------------------

// The dimensions of a tensor as batch, tokens, heads and head_dim.
struct Reading {
  std::string word;  // of files::layout_words
  Layout layout;
};
// Every reading of a tensor of that shape, whose last dimension is head_dim, the most usual first.
std::vector<Reading> readings_of(const std::vector<std::int64_t>& shape);

struct Readings {
  std::vector<Reading> tensors;       // one for each tensor
  std::vector<std::string> notes;     // what the heads leave open
  std::vector<std::string> warnings;  // what speaks against the written layout
};
// The readings that the names and shapes of tensors give. used: the rope that turns them, whose heads theirs are to be;
// one without heads: nothing is known of them. Reads tensors by the written word, or without one by their dimensions:
// bthd, thd, [heads, head_dim] of one token, or [..., heads * head_dim] where the rope gives the heads.
// Without a written word a layout is refused that the config's heads contradict and another layout fits: a number of
// heads that is neither the config's nor a divisor of it, as a shard has, or fewer heads where the other layout has
// exactly the config's. One head alone contradicts nothing. Throws SHAPE.
Readings read_heads(std::string_view operation, std::span<const Tensor* const> tensors, const std::string& written,
                    const ModelRope& used);

}  // namespace rotary::tools
