#include "heads.h"

#include <string>
#include <utility>

#include "files/text/io.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::conversion {
namespace {

constexpr const char* operation = "convert";
using files::FusedKeys;
using files::in_quotes;

Heads heads_of(const ModelRope& rope, int q, int k) {
  return {.sources = {}, .q = q, .k = k, .dim = rope.rope.head_dim, .block = {rope.first, rope.rope.rotary_dim / 2}};
}

}  // namespace

Starts heads_at(int heads, std::int64_t stride) {
  Starts rows;
  for (int head = 0; head < heads; ++head) rows.push_back(head * stride);
  return rows;
}

std::int64_t fused_rows(Fused fused, int heads, int kv_heads, int head_dim) {
  const int gates = fused == Fused::gate_first ? heads : 0;
  return (std::int64_t{gates} + heads + 2 * std::int64_t{kv_heads}) * head_dim;
}

// Heads are counted in the order of the rows: head `slot` begins at row slot * head_dim.
Starts fused_heads(Fused fused, int heads, int kv_heads, int head_dim) {
  const int group = heads / kv_heads;
  const int quarter = heads / 4;
  const auto slot = [&](int head, bool key) {
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
  };
  Starts rows;
  for (int head = 0; head < heads; ++head) rows.push_back(std::int64_t{slot(head, false)} * head_dim);
  for (int head = 0; head < kv_heads; ++head) rows.push_back(std::int64_t{slot(head, true)} * head_dim);
  return rows;
}

// Of [experts, rows, in] each expert has the heads.
SharedHeads HeadFinder::of(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope) {
  const SharedHeads one = one_of(tensor, name, rope);
  const std::size_t rows = one->sources.size();
  if (tensor.shape.size() != 3 || tensor.shape[0] < 1 || tensor.shape[1] != static_cast<std::int64_t>(rows)) return one;
  const auto experts = static_cast<int>(tensor.shape[0]);
  Heads all{.sources = unchanged(tensor.shape[0] * tensor.shape[1]),
            .q = experts * one->q,
            .k = experts * one->k,
            .dim = one->dim,
            .block = one->block};
  for (std::size_t i = 0; i < all.sources.size(); ++i)
    all.sources[i] = static_cast<std::uint32_t>(i / rows * rows) + one->sources[i % rows];
  return std::make_shared<const Heads>(std::move(all));
}

SharedHeads HeadFinder::one_of(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope) {
  const files::AttentionFacts& facts = part_->attention;
  if (part_->latent) return of_latent(tensor, name, rope);
  switch (name.role) {
    case Role::q:
      if (facts.query_experts) return of_queries(rope, rope.kv_heads, rope.rope.head_dim);
      return of_queries(rope, rope.heads, std::int64_t{rope.rope.head_dim} * (facts.gated_q ? 2 : 1));
    case Role::k:
      return of_keys(rope, FusedKeys::none);
    case Role::kv:
      if (facts.fused_keys == FusedKeys::none) refuse(tensor);
      return of_keys(rope, facts.fused_keys);
    case Role::qkv:
      return of_fused(tensor, rope);
    case Role::q_norm:
    case Role::k_norm:
      return of_norm(tensor, name, rope);
    default:
      refuse(tensor);
  }
}

void HeadFinder::refuse(const TensorInfo& tensor) const {
  fail(Code::TENSOR, operation,
       "the projections must be those of " + part_->model_type + " but got tensor " + in_quotes(tensor.name));
}

SharedHeads HeadFinder::of_queries(const ModelRope& rope, int heads, std::int64_t stride) {
  return made(heads * stride, heads_at(heads, stride), heads_of(rope, heads, 0));
}

SharedHeads HeadFinder::of_keys(const ModelRope& rope, FusedKeys fused) {
  const std::int64_t dim = rope.rope.head_dim;
  return made(rope.kv_heads * dim * (fused == FusedKeys::none ? 1 : 2),
              heads_at(rope.kv_heads, dim * (fused == FusedKeys::by_head ? 2 : 1)), heads_of(rope, 0, rope.kv_heads));
}

// MLA: the rotated part of the one key is the last rows of kv_a_proj_with_mqa.
SharedHeads HeadFinder::of_latent(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope) {
  const int rotated = rope.rope.rotary_dim;
  if (name.role == Role::q) {
    const std::int64_t gate = part_->attention.gated_by_value ? part_->value_dim : 0;
    return of_queries(rope, rope.heads, rope.rope.head_dim + gate);
  }
  if (name.role == Role::q_norm || name.role == Role::k_norm) return of_norm(tensor, name, rope);
  if (name.role != Role::latent) refuse(tensor);
  if (part_->latent_rows == 0)
    fail(Code::CONFIG_MISSING, operation, "the config must have kv_lora_rank but it is missing");
  return made(part_->latent_rows + rotated, {part_->latent_rows},
              {.sources = {}, .q = 0, .k = 1, .dim = rotated, .block = {0, rotated / 2}});
}

SharedHeads HeadFinder::of_fused(const TensorInfo& tensor, const ModelRope& rope) {
  const Fused fused = part_->attention.fused;
  if (fused == Fused::none) {
    fail(Code::MODEL_TYPE, operation,
         "the order of the rows of a fused projection must be known but that of " + part_->model_type +
             " is not: tensor " + in_quotes(tensor.name));
  }
  const bool alike = fused == Fused::joined || fused == Fused::by_group;
  const bool fits = rope.kv_heads > 0 && rope.heads % rope.kv_heads == 0 && (alike || rope.heads == rope.kv_heads) &&
                    (fused != Fused::four_parts || rope.heads % 4 == 0);
  if (!fits) {
    fail(Code::SHAPE, operation,
         "the heads of a fused projection must fit its order but the config has " + std::to_string(rope.heads) +
             " and " + std::to_string(rope.kv_heads) + " key heads: tensor " + in_quotes(tensor.name));
  }
  const int dim = rope.rope.head_dim;
  return made(fused_rows(fused, rope.heads, rope.kv_heads, dim), fused_heads(fused, rope.heads, rope.kv_heads, dim),
              heads_of(rope, rope.heads, rope.kv_heads));
}

SharedHeads HeadFinder::of_indexer(Role role, const ModelRope& rope) {
  const int dim = part_->indexer.head_dim, pairs = rope.rope.rotary_dim / 2;
  if (2 * pairs > dim) {
    fail(Code::SHAPE, operation,
         "index_head_dim must hold the " + std::to_string(2 * pairs) + " rotated elements but is " +
             std::to_string(dim));
  }
  const bool of_q = role == Role::q || role == Role::q_norm;
  const int count = role == Role::q ? part_->indexer.heads : 1;
  return made(std::int64_t{count} * dim, heads_at(count, dim),
              {.sources = {}, .q = of_q ? count : 0, .k = of_q ? 0 : count, .dim = dim, .block = {0, pairs}});
}

// One weight for all heads, or for each its own, in one tensor or in one module per head.
SharedHeads HeadFinder::of_norm(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope) {
  const int dim = rope.rope.head_dim;
  const bool of_q = name.role == Role::q_norm, one = name.head >= 0 || tensor.elements() == dim;
  const int count = one ? 1 : of_q ? rope.heads : rope.kv_heads;
  return made(std::int64_t{count} * dim, heads_at(count, dim), heads_of(rope, of_q ? count : 0, of_q ? 0 : count));
}

// The heads with their sources; once for all tensors that are alike.
SharedHeads HeadFinder::made(std::int64_t rows, const Starts& starts, const Heads& heads) {
  SharedHeads& found = made_[{rows, starts, heads.block.first, heads.block.pairs, heads.q}];
  if (found) return found;
  Heads filled = heads;
  filled.sources = unchanged(rows);
  for (const std::int64_t head : starts) reorder(filled.sources, {head + heads.block.first, heads.block.pairs}, to_);
  return found = std::make_shared<const Heads>(std::move(filled));
}

}  // namespace rotary::conversion
