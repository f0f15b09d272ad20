// Where the heads of q and k lie in the projections of each model.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "permutation.h"
#include "rotary/config.h"

namespace rotary::convert {

// The order of the rows of a projection that is q, k and v in one; H heads, K key heads, each of D rows.
enum class Fused : std::uint8_t {
  none,        // q and k are projections of their own
  joined,      // q of all heads, k of all, v of all
  gate_first,  // a gate of all heads, q of all, k of all, v of all
  by_head,     // [q k v] of head 0, of head 1, ...
  by_group,    // [q ... q k v] of each key head and the queries that use it
  four_parts,  // four equal parts, each [q v k] of a quarter of the heads (CodeGen)
};

// The same of a projection that is k and v in one.
enum class FusedKeys : std::uint8_t {
  none,
  joined,   // k of all heads, v of all
  by_head,  // [k v] of head 0, of head 1, ...
};

struct Attention {
  Fused fused = Fused::none;
  FusedKeys fused_keys = FusedKeys::none;
  bool gated_q = false;             // the projection has rows of the query of a head, then as many of its gate
  bool gated_by_value = false;      // the same; the gate has the width of a value (MLA)
  bool query_experts = false;       // each expert projects as many queries as there are keys (JetMoE)
  bool latent = false;              // MLA
  bool keys_may_be_values = false;  // layers without a projection of values use that of the keys
};

// What the config says beside its ropes, where the layout depends on it.
struct LayoutFlags {
  bool multi_query = true;                // Falcon, ChatGLM
  bool new_decoder_architecture = false;  // Falcon
};

// Empty where the weights cannot change their pairing: why_not then gives the reason.
std::optional<Attention> attention_of(std::string_view model_type, const LayoutFlags&);
std::string_view why_not(std::string_view model_type) noexcept;

// The first row of each head.
std::vector<std::int64_t> heads_at(int heads, std::int64_t stride);
// Of a fused projection: those of q, then those of k.
std::vector<std::int64_t> fused_heads(Fused, int heads, int kv_heads, int head_dim);
// The rows of a fused projection; values have the width of keys.
std::int64_t fused_rows(Fused, int heads, int kv_heads, int head_dim);

}  // namespace rotary::convert
