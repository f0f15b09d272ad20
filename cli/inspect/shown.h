// The text that rotary inspect prints about a model, about several side by side, and about a file of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
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
  std::vector<int> layers_without_rope;  // its part's
  std::vector<std::string> layer_types;  // its layers' types, where others of the part have another rope
  std::int64_t stated_context = 0;       // the part's
  std::int64_t context = 0;              // tokens; 0: unknown
  std::int64_t turns_over = 0;  // the tokens over which turns are counted: of the context, those that Lengths holds for
  Lengths lengths;
  Frequencies frequencies;              // scaled
  std::vector<std::string> axis_names;  // one for each axis
  std::vector<PairView> pairs;
  std::vector<ValueOrigin> origins;
};

// used, a rope of the model, must outlive the view. length: the sequence length in tokens.
RopeView view_rope(const Model&, const ModelRope& used, std::optional<std::int64_t> length);

double wavelength_of(const PairView&);  // tokens; of a pair that turns

nlohmann::ordered_json json_of(const RopeView&);  // the keys are a contract

struct SummaryRow {
  std::string key;
  std::string value;
  std::string origin = {};  // "" where it is not known
  bool operator==(const SummaryRow&) const = default;
};

std::vector<SummaryRow> summary_of(const RopeView&);

// How the model rotates by it: "sliding_attention layers: element i of each head turns with element i + 64 ...".
std::string sentence_of(const RopeView&);

// "rope 0 of text_config, sliding_attention layers", then a line for each row. What equals the row of that key in
// `before`, a rope of the same part printed above, is named only: before_index is its number.
void print_summary(const RopeView&, std::size_t index, const RopeView* before = nullptr, std::size_t before_index = 0);

// The pairs one by one: inv_freq with 6 digits, wavelength, turns, what the scaling did.
void print_pairs(const RopeView&);

// A title, and below it the sentences, if there are any: one line each, so that a search finds a whole one; in a
// terminal they are broken between words.
void print_sentences(std::string_view title, const std::vector<std::string>& sentences);

// ---- several models in one table: a column for each, and a mark where they differ ----

struct Inspected {
  std::string config;  // as it was named
  Model model;
  std::vector<std::pair<std::size_t, RopeView>> views;  // the ropes that are shown, by their number in the model
};

void print_side_by_side(const std::vector<Inspected>&);

// For each number of a rope that is shown, the keys of json_of(RopeView) whose values differ between the models.
nlohmann::ordered_json differences_of(const std::vector<Inspected>&);

// ---- a file of tensors ----

// Prints name, dtype and shape of each tensor of the file that source.config names, and the file's metadata. Reads only
// the header of a file; stream: instead the bytes of a pipe. Throws UsageError for an option that describes a rope, and
// what reading throws.
void inspect_tensors(const Source& source, std::vector<std::byte> stream = {});

}  // namespace rotary::cli
