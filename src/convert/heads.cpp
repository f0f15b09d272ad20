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

RotatedBlock block_of(const ModelRope& rope) { return {rope.first, rope.rope.rotary_dim / 2}; }

}  // namespace

std::vector<std::int64_t> heads_at(int heads, std::int64_t stride) {
  std::vector<std::int64_t> rows;
  for (int head = 0; head < heads; ++head) rows.push_back(head * stride);
  return rows;
}

std::int64_t fused_rows(Fused fused, int heads, int kv_heads, int head_dim) {
  const int gates = fused == Fused::gate_first ? heads : 0;
  return (std::int64_t{gates} + heads + 2 * std::int64_t{kv_heads}) * head_dim;
}

// Heads are counted in the order of the rows: head `slot` begins at row slot * head_dim.
std::vector<std::int64_t> fused_heads(Fused fused, int heads, int kv_heads, int head_dim) {
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
  std::vector<std::int64_t> rows;
  for (int head = 0; head < heads; ++head) rows.push_back(std::int64_t{slot(head, false)} * head_dim);
  for (int head = 0; head < kv_heads; ++head) rows.push_back(std::int64_t{slot(head, true)} * head_dim);
  return rows;
}

// Of [experts, rows, in] each expert has the heads.
SharedHeads HeadFinder::of(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope) {
  const SharedHeads one = one_of(tensor, name, rope);
  const bool several = tensor.shape.size() == 3 && tensor.shape[0] > 0 &&
                       tensor.shape[1] == static_cast<std::int64_t>(one->sources.size());
  return several ? repeated(one, tensor.shape[0]) : one;
}

SharedHeads HeadFinder::one_of(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope) {
  if (part_->latent) return of_latent(tensor, name, rope);
  switch (name.role) {
    case Role::q:
      if (part_->attention.query_experts) {
        ModelRope expert = rope;
        expert.heads = rope.kv_heads;
        return of_queries(expert, rope.rope.head_dim);
      }
      return of_queries(rope, std::int64_t{rope.rope.head_dim} * (part_->attention.gated_q ? 2 : 1));
    case Role::k:
      return of_keys(rope, FusedKeys::none);
    case Role::kv:
      if (part_->attention.fused_keys == FusedKeys::none) refuse(tensor);
      return of_keys(rope, part_->attention.fused_keys);
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

SharedHeads HeadFinder::repeated(const SharedHeads& one, std::int64_t times) {
  const auto rows = static_cast<std::int64_t>(one->sources.size());
  Heads all{.sources = {}, .q = {}, .k = {}, .dim = one->dim, .block = one->block};
  for (std::int64_t i = 0; i < times; ++i) {
    for (const std::int64_t row : one->q) all.q.push_back(i * rows + row);
    for (const std::int64_t row : one->k) all.k.push_back(i * rows + row);
  }
  return made(times * rows, std::move(all));
}

SharedHeads HeadFinder::of_queries(const ModelRope& rope, std::int64_t stride) {
  return made(
      rope.heads * stride,
      {.sources = {}, .q = heads_at(rope.heads, stride), .k = {}, .dim = rope.rope.head_dim, .block = block_of(rope)});
}

SharedHeads HeadFinder::of_keys(const ModelRope& rope, FusedKeys fused) {
  const int dim = rope.rope.head_dim;
  const std::int64_t stride = std::int64_t{dim} * (fused == FusedKeys::by_head ? 2 : 1);
  return made(std::int64_t{rope.kv_heads} * dim * (fused == FusedKeys::none ? 1 : 2),
              {.sources = {}, .q = {}, .k = heads_at(rope.kv_heads, stride), .dim = dim, .block = block_of(rope)});
}

// MLA: the rotated part of the one key is the last rows of kv_a_proj_with_mqa.
SharedHeads HeadFinder::of_latent(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope) {
  const int rotated = rope.rope.rotary_dim;
  if (name.role == Role::q)
    return of_queries(rope, rope.rope.head_dim + (part_->attention.gated_by_value ? part_->value_dim : 0));
  if (name.role == Role::q_norm || name.role == Role::k_norm) return of_norm(tensor, name, rope);
  if (name.role != Role::latent) refuse(tensor);
  if (part_->latent_rows == 0)
    fail(Code::CONFIG_MISSING, operation, "the config must have kv_lora_rank but it is missing");
  return made(part_->latent_rows + rotated,
              {.sources = {}, .q = {}, .k = {part_->latent_rows}, .dim = rotated, .block = {0, rotated / 2}});
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
  const std::vector<std::int64_t> all = fused_heads(fused, rope.heads, rope.kv_heads, dim);
  return made(fused_rows(fused, rope.heads, rope.kv_heads, dim), {.sources = {},
                                                                  .q = {all.begin(), all.begin() + rope.heads},
                                                                  .k = {all.begin() + rope.heads, all.end()},
                                                                  .dim = dim,
                                                                  .block = block_of(rope)});
}

SharedHeads HeadFinder::of_indexer(Role role, const ModelRope& rope) {
  const int dim = part_->indexer.head_dim;
  const int pairs = rope.rope.rotary_dim / 2;
  if (2 * pairs > dim) {
    fail(Code::SHAPE, operation,
         "index_head_dim must hold the " + std::to_string(2 * pairs) + " rotated elements but is " +
             std::to_string(dim));
  }
  Heads heads{.sources = {}, .q = {}, .k = {}, .dim = dim, .block = {0, pairs}};
  const int count = role == Role::q ? part_->indexer.heads : 1;
  const bool of_q = role == Role::q || role == Role::q_norm;
  (of_q ? heads.q : heads.k) = heads_at(count, dim);
  return made(std::int64_t{count} * dim, std::move(heads));
}

// One weight for all heads, or for each its own, in one tensor or in one module per head.
SharedHeads HeadFinder::of_norm(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope) {
  const int dim = rope.rope.head_dim;
  const bool of_q = name.role == Role::q_norm;
  const int heads = of_q ? rope.heads : rope.kv_heads;
  const int count = name.head < 0 && tensor.elements() != dim ? heads : 1;
  std::vector<std::int64_t> rows = heads_at(count, dim);
  Heads made_of{.sources = {}, .q = {}, .k = {}, .dim = dim, .block = block_of(rope)};
  (of_q ? made_of.q : made_of.k) = std::move(rows);
  return made(std::int64_t{count} * dim, std::move(made_of));
}

SharedHeads HeadFinder::made(std::int64_t rows, Heads heads) {
  SharedHeads& found = made_[{rows, heads.q, heads.k, heads.block.first, heads.block.pairs}];
  if (!found) {
    heads.sources = unchanged(rows);
    for (const std::vector<std::int64_t>* list : {&heads.q, &heads.k}) {
      for (const std::int64_t head : *list) reorder(heads.sources, {head + heads.block.first, heads.block.pairs}, to_);
    }
    found = std::make_shared<const Heads>(std::move(heads));
  }
  return found;
}

}  // namespace rotary::conversion
