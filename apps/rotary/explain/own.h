// Chapters 8 and 11 for the rope of a model that the reader names.
#pragma once

#include "apps/rotary/inspect/rope.h"
#include "apps/rotary/source.h"
#include "page.h"

namespace rotary::cli {

// What the two chapters speak of. The model must outlive it.
struct Own {
  std::string name;  // of CONFIG; "" without
  std::string described;
  RopeView view;
  Frequencies scaled;
  Frequencies plain;        // without the scaling
  std::int64_t length = 0;  // the tokens over which turns are counted
  bool is_known_length = true;
  std::optional<std::int64_t> published_length;  // the trained length, where the makers publish one
  std::string publisher;
};
// That of --rope, else the one that `rotary extend` extends.
Own own_rope(Source, const Model&);

Page explain_own_frequencies(const Own&);
Page explain_own_scaling(const Own&);

}  // namespace rotary::cli
