// DeepSeek-V4: the last elements of a head turn, and yarn leaves their length as it is.
#include "files/config/stages.h"

namespace rotary::files {
namespace {

std::optional<int> rope_head_dim(Reading& reading, const Part& part, const HeadShape& heads) {
  constexpr const char* key = "qk_rope_head_dim";
  const auto dim = part.keys.integer(key, 2, heads.block);
  if (!dim) return std::nullopt;
  if (*dim % 2 != 0) part.keys.refuse(key, "must be even");
  reading.origins.read("rotary_dim", part.keys, key);
  return static_cast<int>(*dim);
}

void keep_length(Reading& reading, const Part& part, Yarn& yarn) {
  if (yarn.attention_factor) return;
  yarn.attention_factor = 1;
  reading.origins.by_default("attention_factor", part.name());
  reading.note(part.path, "yarn without an attention factor, as " + part.name() + " has it");
}

void put_last(Reading& reading, const Part&, ModelRope& model) {
  model.first = model.rope.head_dim - model.rope.rotary_dim;
  if (model.first != 0) reading.origins.derived("first", "head_dim - rotary_dim");
}

}  // namespace

constexpr Quirk quirks::deepseek_v4 = {.rotary_dim = rope_head_dim, .yarn = keep_length, .rope = put_last};

}  // namespace rotary::files
