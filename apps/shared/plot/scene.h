// What the names of lines and guides in an SVG picture must keep clear of: curves, guides, and each other. In pixels.
#pragma once

#include <string_view>
#include <vector>

#include "layout.h"

namespace rotary::cli {

using Points = std::vector<PlotPoint>;

// Of the name of a line, which is bold.
double name_width(std::string_view text);
Box box_of_name(double x, double y, std::string_view text);  // its base line begins there

// The larger of the distances across and up; 0 where they touch.
double distance(const Box& box, const Points& curve);

// Curves and guides as points that are at most 3 pixels apart.
struct Scene {
  Frame frame;
  std::vector<Points> curves;  // of lines, then the edges of bands; of guides empty
  std::vector<Points> guides;  // of lines, in their order; of others than guides empty
  std::vector<Box> taken;      // by names that are placed already

  bool has_room(const Box& box) const;
  double clearance(const Box& box) const;  // the distance to the nearest curve
};
Scene scene_of(const Plot& plot, const PlotView& view, const Frame& frame);

// The names of the guides, each nearer to its own guide than to any other, in the order of the guides. Guides that are
// closer than their names are high share one name: "contexts 128000 and 131072". Adds them to scene.taken.
std::vector<NamePlace> place_guides(const Plot& plot, const PlotView& view, Scene& scene);

}  // namespace rotary::cli
