#include "heads.h"

#include <string>
#include <utility>

#include "files/text/io.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::conversion {
namespace {

constexpr const char* operation = "convert";
using files::Fused;
using files::FusedKeys;
using files::in_quotes;
using Starts = std::vector<std::int64_t>;  // the first row of each head

Starts heads_at(int heads, std::int64_t stride) {
  Starts rows;
  for (int head = 0; head < heads; ++head) rows.push_back(head * stride);
  return rows;
}

// Of a fused projection: the heads of q, then of k. Head `slot` begins at row slot * head_dim.
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

// The heads with the order of all rows; starts: the first row of each head.
Heads with_sources(Heads heads, std::int64_t rows, const Starts& starts, Pairing to) {
  Sources sources = unchanged(rows);
  for (const std::int64_t head : starts) reorder(sources, {head + heads.block.first, heads.block.pairs}, to);
  heads.sources = std::make_shared<const Sources>(std::move(sources));
  return heads;
}

Heads counted(const ModelRope& rope, int q, int k) {
  return {.q = q, .k = k, .dim = rope.rope.head_dim, .block = {rope.first, rope.rope.rotary_dim / 2}};
}

class HeadFinder {
 public:
  HeadFinder(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope, const TextPart& part, Pairing to)
      : tensor_(tensor), name_(name), rope_(rope), part_(part), to_(to) {}

  Heads find() const {
    const files::AttentionFacts& facts = part_.attention;
    if (name_.role == Role::q_norm || name_.role == Role::k_norm) return of_norm();
    if (part_.latent) return of_latent();
    switch (name_.role) {
      case Role::q:
        if (facts.query_experts) return heads_of_queries(rope_, rope_.kv_heads, dim(), to_);
        return heads_of_queries(rope_, rope_.heads, std::int64_t{dim()} * (facts.gated_q ? 2 : 1), to_);
      case Role::k:
        return of_keys(FusedKeys::none);
      case Role::kv:
        if (facts.fused_keys == FusedKeys::none) refuse();
        return of_keys(facts.fused_keys);
      case Role::qkv:
        return of_fused();
      default:
        refuse();
    }
  }

 private:
  int dim() const { return rope_.rope.head_dim; }

  [[noreturn]] void refuse() const {
    fail(Code::TENSOR, operation,
         "the projections must be those of " + part_.model_type + " but got tensor " + in_quotes(tensor_.name));
  }

  Heads of_keys(FusedKeys fused) const {
    const std::int64_t rows = rope_.kv_heads * std::int64_t{dim()} * (fused == FusedKeys::none ? 1 : 2);
    const std::int64_t stride = std::int64_t{dim()} * (fused == FusedKeys::by_head ? 2 : 1);
    return with_sources(counted(rope_, 0, rope_.kv_heads), rows, heads_at(rope_.kv_heads, stride), to_);
  }

  // MLA: the rotated part of the one key is the last rows of kv_a_proj_with_mqa.
  Heads of_latent() const {
    const int rotated = rope_.rope.rotary_dim;
    if (name_.role == Role::q) {
      return heads_of_queries(rope_, rope_.heads, dim() + (part_.attention.gated_by_value ? part_.value_dim : 0), to_);
    }
    if (name_.role != Role::latent) refuse();
    if (part_.latent_rows == 0)
      fail(Code::CONFIG_MISSING, operation, "the config must have kv_lora_rank but it is missing");
    return with_sources({.q = 0, .k = 1, .dim = rotated, .block = {0, rotated / 2}}, part_.latent_rows + rotated,
                        {part_.latent_rows}, to_);
  }

  // Values have the width of keys.
  Heads of_fused() const {
    const Fused fused = part_.attention.fused;
    if (fused == Fused::none) {
      fail(Code::MODEL_TYPE, operation,
           "the order of the rows of a fused projection must be known but that of " + part_.model_type +
               " is not: tensor " + in_quotes(tensor_.name));
    }
    const int q = rope_.heads, k = rope_.kv_heads;
    const bool alike = fused == Fused::joined || fused == Fused::by_group;
    const bool fits = k > 0 && q % k == 0 && (alike || q == k) && (fused != Fused::four_parts || q % 4 == 0);
    if (!fits) {
      fail(Code::SHAPE, operation,
           "the heads of a fused projection must fit its order but the config has " + std::to_string(q) + " and " +
               std::to_string(k) + " key heads: tensor " + in_quotes(tensor_.name));
    }
    const std::int64_t gates = fused == Fused::gate_first ? q : 0;
    return with_sources(counted(rope_, q, k), (gates + q + 2 * std::int64_t{k}) * dim(),
                        fused_heads(fused, q, k, dim()), to_);
  }

  // One weight for all heads, or for each its own, in one tensor or in one module per head.
  Heads of_norm() const {
    const bool of_q = name_.role == Role::q_norm, one = name_.head >= 0 || tensor_.elements() == dim();
    const int count = one ? 1 : of_q ? rope_.heads : rope_.kv_heads;
    return with_sources(counted(rope_, of_q ? count : 0, of_q ? 0 : count), std::int64_t{count} * dim(),
                        heads_at(count, dim()), to_);
  }

  const TensorInfo& tensor_;
  const TensorName& name_;
  const ModelRope& rope_;
  const TextPart& part_;
  Pairing to_;
};

}  // namespace

// Of [experts, rows, in] each expert has the heads.
Heads heads_in(const TensorInfo& tensor, const TensorName& name, const ModelRope& rope, const TextPart& part,
               Pairing to) {
  Heads heads = HeadFinder(tensor, name, rope, part, to).find();
  const Sources& one = *heads.sources;
  const auto rows = static_cast<std::int64_t>(one.size());
  if (tensor.shape.size() != 3 || tensor.shape[0] < 1 || tensor.shape[1] != rows) return heads;
  heads.q *= static_cast<int>(tensor.shape[0]);
  heads.k *= static_cast<int>(tensor.shape[0]);
  Sources all = unchanged(tensor.shape[0] * rows);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<std::uint32_t>(i - i % one.size()) + one[i % one.size()];
  heads.sources = std::make_shared<const Sources>(std::move(all));
  return heads;
}

Heads heads_of_queries(const ModelRope& rope, int heads, std::int64_t stride, Pairing to) {
  return with_sources(counted(rope, heads, 0), heads * stride, heads_at(heads, stride), to);
}

Heads heads_of_indexer(Role role, const ModelRope& rope, const TextPart& part, Pairing to) {
  const int dim = part.indexer.head_dim, pairs = rope.rope.rotary_dim / 2;
  if (2 * pairs > dim) {
    fail(Code::SHAPE, operation,
         "index_head_dim must hold the " + std::to_string(2 * pairs) + " rotated elements but is " +
             std::to_string(dim));
  }
  const bool of_q = role == Role::q || role == Role::q_norm;
  const int count = role == Role::q ? part.indexer.heads : 1;
  return with_sources({.q = of_q ? count : 0, .k = of_q ? 0 : count, .dim = dim, .block = {0, pairs}},
                      std::int64_t{count} * dim, heads_at(count, dim), to);
}

}  // namespace rotary::conversion
