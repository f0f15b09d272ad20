// What the makers of models publish for their longer contexts.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "rotary/config.h"

namespace rotary::extend {

struct Published {
  std::string_view types;           // model_types of the text part, separated by blanks
  std::int64_t trained_length = 0;  // of the short original
  std::int64_t context = 0;
  Scaling (*scaling)() = nullptr;  // made when it is asked for: lists have no constant
  std::string_view publisher, models, source;
  double base = 0;                   // 0: any
  int min_width = 0, max_width = 0;  // of heads * head_dim; 0: any
  int kv_heads = 0;                  // 0: any
  std::string_view name = {};        // part of _name_or_path; "": any
  // max_position_embeddings of such originals that are not the trained length; 0: none
  std::array<std::int64_t, 2> stated = {};
  bool states_betas = false;  // its config spells the default beta_fast and beta_slow too
  // Why a factor that does not reach the context is right; of those that do, nothing is said.
  std::string_view why_less = "with weights trained on such lengths";
};

// That of a model whose config has this _name_or_path: the one for this context, else the first for another; null where
// nothing is known.
const Published* published_for(const ModelRope&, std::string_view name, std::int64_t context);

}  // namespace rotary::extend
