#include "plan.h"

namespace rotary::conversion {
namespace {

using files::Fused;
using files::FusedKeys;

constexpr std::int64_t most_rows = 1 << 24;  // memory is taken for each row, though a tensor may have no bytes

Heads counted(const ModelRope& rope, int q, int k) {
  return {.q = q, .k = k, .dim = rope.rope.head_dim, .block = {rope.first, rope.rope.rotary_dim / 2}};
}

// Heads that begin every `stride` rows and fill the axis.
Heads evenly_spaced(Heads heads, int count, std::int64_t stride) {
  for (int head = 0; head < count; ++head) heads.starts.push_back(head * stride);
  heads.rows = count * stride;
  return heads;
}

// The slot of a head in a fused projection: the head of q or of k begins at row slot * head_dim.
int slot_of(Fused fused, int head, bool key, int heads, int kv_heads) {
  const int group = heads / kv_heads;
  const int quarter = heads / 4;
  switch (fused) {
    case Fused::by_head:
      return 3 * head + (key ? 1 : 0);
    case Fused::by_group:
      return key ? head * (group + 2) + group : head / group * (group + 2) + head % group;
    case Fused::four_parts:
      return head / quarter * 3 * quarter + (key ? 2 * quarter : 0) + head % quarter;
    case Fused::gate_first:
      return heads + (key ? heads : 0) + head;
    case Fused::joined:
    case Fused::none:
      break;
  }
  return (key ? heads : 0) + head;
}

[[noreturn]] void refuse_projection(const TensorInfo& tensor, const TextPart& part) {
  fail(Code::TENSOR, operation, "the projections must be those of ", part.model_type, " but got tensor ",
       in_quotes(tensor.name));
}

// For MLA: the rotated part of the single key is the last rows of kv_a_proj_with_mqa.
Heads of_latent(const TensorInfo& tensor, Role role, const ModelRope& rope, const TextPart& part) {
  const int rotated = rope.rope.rotary_dim;
  const std::int64_t gate = part.attention.gated_by_value ? part.number("v_head_dim") : 0;
  if (role == Role::q) return of_queries(rope, rope.heads, rope.rope.head_dim + gate);
  if (role != Role::latent) refuse_projection(tensor, part);
  const std::int64_t latent_rows = part.number("kv_lora_rank");
  if (latent_rows == 0) fail(Code::CONFIG_MISSING, operation, "the config must have kv_lora_rank but it is missing");
  return {.k = 1, .dim = rotated, .block = {0, rotated / 2}, .rows = latent_rows + rotated, .starts = {latent_rows}};
}

// Values have the width of keys.
Heads of_fused(const TensorInfo& tensor, const ModelRope& rope, const TextPart& part) {
  const Fused fused = part.attention.fused;
  if (fused == Fused::none) {
    fail(Code::MODEL_TYPE, operation, "the order of the rows of a fused projection must be known but the order of ",
         part.model_type, " is not: tensor ", in_quotes(tensor.name));
  }
  const int q = rope.heads, k = rope.kv_heads;
  const bool alike = fused == Fused::joined || fused == Fused::by_group;
  const bool fits = k > 0 && q % k == 0 && (alike || q == k) && (fused != Fused::four_parts || q % 4 == 0);
  if (!fits) {
    fail(Code::SHAPE, operation, "the heads of a fused projection must fit its order but the config has ", q, " and ",
         k, " key heads: tensor ", in_quotes(tensor.name));
  }
  const std::int64_t dim = rope.rope.head_dim, gates = fused == Fused::gate_first ? q : 0;
  Heads heads = counted(rope, q, k);
  heads.rows = (gates + q + 2 * std::int64_t{k}) * dim;
  for (int head = 0; head < q; ++head) heads.starts.push_back(slot_of(fused, head, false, q, k) * dim);
  for (int head = 0; head < k; ++head) heads.starts.push_back(slot_of(fused, head, true, q, k) * dim);
  return heads;
}

Heads of_keys(const ModelRope& rope, FusedKeys fused) {
  const std::int64_t dim = rope.rope.head_dim;
  Heads heads =
      evenly_spaced(counted(rope, 0, rope.kv_heads), rope.kv_heads, fused == FusedKeys::by_head ? 2 * dim : dim);
  if (fused == FusedKeys::joined) heads.rows *= 2;
  return heads;
}

// One weight for all heads, or one for each head, in one tensor or in one module per head.
Heads of_norm(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope) {
  const int dim = rope.rope.head_dim;
  const bool of_q = name.role == Role::q_norm, one = name.head >= 0 || tensor.elements() == dim;
  const int count = one ? 1 : of_q ? rope.heads : rope.kv_heads;
  return evenly_spaced(counted(rope, of_q ? count : 0, of_q ? 0 : count), count, dim);
}

Heads of_one_expert(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope, const TextPart& part) {
  const files::AttentionFacts& facts = part.attention;
  if (name.role == Role::q_norm || name.role == Role::k_norm) return of_norm(tensor, name, rope);
  if (part.latent) return of_latent(tensor, name.role, rope, part);
  switch (name.role) {
    case Role::q:
      return of_queries(rope, facts.query_experts ? rope.kv_heads : rope.heads,
                        rope.rope.head_dim * (facts.gated_q ? std::int64_t{2} : 1));
    case Role::k:
      return of_keys(rope, FusedKeys::none);
    case Role::kv:
      if (facts.fused_keys != FusedKeys::none) return of_keys(rope, facts.fused_keys);
      break;
    case Role::qkv:
      return of_fused(tensor, rope, part);
    default:
      break;
  }
  refuse_projection(tensor, part);
}

}  // namespace

Heads of_queries(const ModelRope& rope, int count, std::int64_t stride) {
  return evenly_spaced(counted(rope, count, 0), count, stride);
}

// The heads of a tensor; in [experts, rows, in] each expert has these heads.
Heads heads_in(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope, const TextPart& part) {
  Heads heads = of_one_expert(tensor, name, rope, part);
  if (tensor.shape.size() != 3 || tensor.shape[0] < 1 || tensor.shape[1] != heads.rows) return heads;
  if (heads.rows > most_rows / tensor.shape[0]) return heads;  // the tensor does not fit them, which is refused later
  const auto experts = static_cast<int>(tensor.shape[0]);
  const std::size_t each = heads.starts.size();
  for (std::size_t i = each; i < each * static_cast<std::size_t>(experts); ++i)
    heads.starts.push_back(heads.starts[i - each] + heads.rows);
  heads.q *= experts;
  heads.k *= experts;
  heads.rows *= experts;
  return heads;
}

Heads heads_of_indexer(Role role, const ModelRope& rope, const TextPart& part) {
  const int dim = part.indexer.head_dim, pairs = rope.rope.rotary_dim / 2;
  if (2 * pairs > dim) {
    fail(Code::SHAPE, operation, "index_head_dim must hold the ", 2 * pairs, " rotated elements but is ", dim);
  }
  const bool of_q = role == Role::q || role == Role::q_norm;
  const int count = role == Role::q ? part.indexer.heads : 1;
  return evenly_spaced({.q = of_q ? count : 0, .k = of_q ? 0 : count, .dim = dim, .block = {0, pairs}}, count, dim);
}

std::shared_ptr<const Sources> order_of(const Heads& heads, Pairing to) {
  if (heads.rows > most_rows) {
    fail(Code::SHAPE, operation, "a projection must have at most ", most_rows, " rows but the config's heads have ",
         heads.rows);
  }
  Sources sources = unchanged(heads.rows);
  for (const std::int64_t head : heads.starts) reorder(sources, {head + heads.block.first, heads.block.pairs}, to);
  return std::make_shared<const Sources>(std::move(sources));
}

}  // namespace rotary::conversion
