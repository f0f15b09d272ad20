// What the makers of models publish for their longer contexts: the recipes of data/published.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/config.h"

namespace rotary::extend {

struct Published {
  std::vector<std::string> types;   // model_types of the text part
  std::int64_t trained_length = 0;  // of the short original
  std::int64_t context = 0;
  std::int64_t also = 0;  // a shorter context that the same parameters are published for; 0: none
  Scaling scaling;
  std::string publisher, models, source;
  std::string seen;                  // where the numbers were read
  double base = 0;                   // 0: any
  int min_width = 0, max_width = 0;  // of heads * head_dim; 0: any
  int kv_heads = 0;                  // 0: any
  std::string name;                  // part of _name_or_path; "": any
  std::optional<std::string> part;   // of the config, as ModelRope has it; nothing: any
  // max_position_embeddings of such originals that are not the trained length.
  std::vector<std::int64_t> stated;
  bool states_betas = false;        // its config spells the default beta_fast and beta_slow too
  std::int64_t sliding_window = 0;  // of the published file, where its original has a shorter one; 0: not said
  std::string why_less;             // why a factor that does not reach the context is right

  // For this context, or for one that is at most 1/16 longer.
  bool is_made_for(std::int64_t context) const;
  // max_position_embeddings of such originals that is not the trained length.
  bool states_more(std::int64_t context) const;
};

const std::vector<Published>& published_recipes();

// At most 1/16 shorter.
bool is_just_below(std::int64_t context, std::int64_t length);

// The recipe for a model of this model_type, whose config has this _name_or_path: the one made for this context, else
// the first for another; null where nothing is known.
const Published* published_for(const ModelRope&, std::string_view type, std::string_view name, std::int64_t context);

}  // namespace rotary::extend
