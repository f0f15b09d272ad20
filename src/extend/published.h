// What the makers of models publish for their longer contexts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "rotary/config.h"

namespace rotary::extend {

struct Published {
  std::string_view types;           // model_types of the text part, separated by blanks
  std::int64_t trained_length = 0;  // of the short original
  std::int64_t context = 0;
  std::int64_t also = 0;           // a shorter context that the same parameters are published for; 0: none
  Scaling (*scaling)() = nullptr;  // made when it is asked for: lists have no constant
  std::string_view publisher, models, source;
  double base = 0;                   // 0: any
  int min_width = 0, max_width = 0;  // of heads * head_dim; 0: any
  int kv_heads = 0;                  // 0: any
  std::string_view name = {};        // part of _name_or_path; "": any
  const char* part = nullptr;        // of the config, as ModelRope has it; null: any
  // max_position_embeddings of such originals that are not the trained length; 0: none
  std::array<std::int64_t, 3> stated = {};
  bool states_betas = false;        // its config spells the default beta_fast and beta_slow too
  std::int64_t sliding_window = 0;  // of the published file, where its original has a shorter one; 0: not said
  // Why a factor that does not reach the context is right; of those that do, nothing is said.
  std::string_view why_less = "with weights trained on such lengths";
};

std::span<const Published> published_recipes() noexcept;

// At most 1/16 shorter.
bool is_just_below(std::int64_t context, std::int64_t length);
// For this context, or for one that is at most 1/16 longer.
bool is_made_for(const Published&, std::int64_t context);

// That of a model of this model_type, whose config has this _name_or_path: the one made for this context, else the
// first for another; null where nothing is known.
const Published* published_for(const ModelRope&, std::string_view type, std::string_view name, std::int64_t context);

}  // namespace rotary::extend
