// What is known before any method is tried: which ropes are extended, and from which length.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "files/models/families.h"
#include "files/text/json.h"
#include "files/text/json_edit.h"
#include "published.h"
#include "rotary/extend.h"

namespace rotary::extend {

inline constexpr std::int64_t longest_text = std::int64_t{1} << 53;  // a double counts its tokens

struct Situation {
  const Request& request;                 // must outlive it
  files::Json root = {};                  // the config; null where its text cannot be changed
  files::JsonPath part = {};              // of the ropes that are extended
  const files::Family* family = nullptr;  // of that part; null: not known
  const Published* published = nullptr;
  std::vector<std::size_t> targets = {}, left = {};
  std::int64_t trained = 0;
  std::string trained_from = {};
  std::vector<std::string> warnings = {};

  const ModelRope& rope(std::size_t i) const { return request.model.ropes[i]; }
  const ModelRope& first() const { return rope(targets.front()); }
  bool editable() const { return !request.config.empty(); }
  // The part's object, or its value of that key; null where it is not there.
  const files::Json* object() const;
  const files::Json* value(const std::string& key) const;
  files::JsonPath path(const std::string& key) const;

  // The config has, or its family makes, parameters for each layer type.
  bool of_layer_types() const;
  // Layers that slide and others share the rope, and only the others are extended.
  bool splits(const ModelRope&) const;

  // context / trained_length, rounded so that their product reaches the context.
  double smallest_factor() const;
  bool of_llama3_or_lists() const;
  bool is_scaled() const;  // the file's own rope
  // The file's own scaling was made for this very context.
  bool is_own_context() const;
  // What is published was made for this very trained length, and for this context or one that is at most 1/16 longer.
  bool is_published_context() const;
  bool is_published_exactly() const;  // for this very length and context
  // Tokens that the file states for its own scaling, else that its factor reaches; 0: it has no scaling, or one that
  // follows the length.
  std::int64_t taken_by_the_file() const;
};

// Throws ROPE, VALUE, CONFIG_MISSING.
Situation situation_of(const Request&);

bool slides(const std::string& layer_type);
bool only_slides(const ModelRope&);                         // every layer that uses it
std::int64_t reached(std::int64_t trained, double factor);  // trained * factor, rounded

}  // namespace rotary::extend
