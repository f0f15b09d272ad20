// The text that rotary inspect prints about a model, and about several side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reach.h"
#include "rotary/config.h"
#include "source.h"

namespace rotary::cli {

// ---- one rope: the origin of each value, and the effect of the scaling on each pair ----

struct PairView {
  int axis = 0;
  double inv_freq = 0;
  double stretch = 1;  // scaled wavelength / unscaled wavelength; 0: the pair does not rotate
  const char* effect = "kept";
};

struct RopeView {
  const ModelRope* used = nullptr;
  std::vector<int> layers_without_rope;  // in its part
  bool has_own_layers = false;           // another rope of its part has other layers
  std::vector<std::string> layer_types;  // the types of its layers, if the part has several ropes
  std::int64_t stated_context = 0;       // the part's
  std::int64_t context = 0;              // tokens; 0: unknown
  std::int64_t turns_over = 0;           // tokens over which turns are counted: the context, up to lengths.most
  Lengths lengths;
  Frequencies frequencies;              // scaled
  std::vector<std::string> axis_names;  // one for each axis
  std::vector<PairView> pairs;
  std::vector<ValueOrigin> origins;
};

// used, a rope of the model, must outlive the view. length: the sequence length in tokens.
RopeView view_rope(const Model&, const ModelRope& used, std::optional<std::int64_t> length);

double wavelength_of(const PairView&);  // tokens; of a pair that turns

nlohmann::ordered_json rope_json(const RopeView&);  // the keys are a contract

struct SummaryRow {
  std::string key;
  std::string value;
  std::string origin = {};  // "" where it is not known
  bool operator==(const SummaryRow&) const = default;
};

std::vector<SummaryRow> summary_of(const RopeView&);

// The sentence that says how the rope rotates: "sliding_attention layers: element i of each head turns with ...".
std::string sentence_of(const RopeView&);

using NumberedView = std::pair<const std::size_t, RopeView>;  // by the number of the rope in the model
// "rope 0 of text_config, sliding_attention layers", then a line for each row. before: a rope of the same part that was
// printed above, or null; of the rows that are equal only the keys are printed.
void print_summary(const NumberedView&, const NumberedView* before);

// A line for each pair: inv_freq with 6 digits, wavelength, turns, effect of the scaling.
void print_pairs(const RopeView&);

// A title and the sentences below it, if there are any. Each is one line, so that a search finds it whole, and is
// broken between words in a terminal only.
void print_sentences(std::string_view title, const std::vector<std::string>& sentences);

// ---- several models in one table: a column for each, and a mark where they differ ----

struct Inspected {
  std::string config;  // as given on the command line
  Model model;
  std::map<std::size_t, RopeView> views;  // the ropes that are shown
};

void print_side_by_side(const std::vector<Inspected>&);

// For each number of a rope that is shown, the keys of rope_json(RopeView) whose values differ between the models.
nlohmann::ordered_json differences_of(const std::vector<Inspected>&);

}  // namespace rotary::cli
