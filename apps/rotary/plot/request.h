// What `rotary plot` is asked for, the ropes that it names, and what each kind draws.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/rotary/inspect/shown.h"
#include "apps/rotary/source.h"
#include "apps/shared/plot/figure.h"

namespace rotary::cli {

struct PlotRequest {
  std::string kind;
  std::vector<std::string> configs;  // or folders of runs
  Source source;
  std::vector<std::string> scalings;
  std::optional<std::string> positions;
  std::optional<std::string> pairs;
  bool cos = false, sin = false;
  std::string q, k, layout;
  std::string envelope = "sum";
  std::int64_t seed = 1;
  std::optional<double> step;  // of a coordinate, from patch to patch
};

struct PlottedRope {
  std::string name;                    // "Llama-3.1-8B", "yarn 4", "base 10000"
  std::shared_ptr<const Model> model;  // which view points into
  const ModelRope* used = nullptr;
  RopeView view;
  std::optional<std::int64_t> length = {};  // that the frequencies are for, where they depend on it
};

struct PlottedRopes {
  std::vector<PlottedRope> ropes;
  std::string subject;  // what all of them are of: ": Llama-3.1-8B"; "" for several configs
};

// every: all ropes of a model that turn by the places of tokens and differ, where no option chooses one, and each axis
// of one whose pairs turn by sums.
PlottedRopes read_ropes(const PlotRequest&, bool every);

// A length that a plot marks: what a model was trained on, or reaches.
struct MarkedLength {
  double tokens = 0;
  std::string name;  // "trained length 8192", "context 131072"
};
// Rising; at most six, more are not marked. Where ropes differ in marked ones, the note says which has which.
struct MarkedLengths {
  std::vector<MarkedLength> marks;
  std::string note;  // "context 4096: a; trained length 8192, context 131072: b, c"
};
MarkedLengths marked_lengths(const PlotRequest&, const std::vector<PlottedRope>&);
// What those lengths are for one rope; 0: unknown.
std::int64_t trained_tokens(const ModelRope&);
std::int64_t context_tokens(const PlotRequest&, const ModelRope&);

// ---- the kinds ----

Figure wavelengths_plot(const PlotRequest&);
Figure stretch_plot(const PlotRequest&);
Figure table_map(const PlotRequest&);
// The mean score of unit vectors at every distance, and its envelope.
Figure decay_plot(const PlotRequest&);
// The same of two patches of an image, by how far they are apart in rows and in columns.
Figure patches_plot(const PlotRequest&);
// The largest error of cos and sin at positions, by several ways; of several ropes by the float32 product only.
Figure accuracy_plot(const PlotRequest&);

// Each position on every axis.
Table table_on_every_axis(const Frequencies&, const std::vector<std::int64_t>& positions);

// Guides at lengths across the figure: level, as wide as its lines are, or upright, as high.
void add_marks(Figure& plot, const std::vector<MarkedLength>& lengths, bool level);

}  // namespace rotary::cli
