// A canvas: a thumbnail over the slices of the same picture.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ids.h"

namespace rotary::made {
namespace {

struct Marks {
  std::int64_t slice_start, slice_end, image_start, image_end, newline;
  bool have(std::int64_t id) const {
    return id == slice_start || id == slice_end || id == image_start || id == image_end || id == newline;
  }
};

struct Frame {
  Run thumbnail;
  std::vector<Run> slices;
};

std::vector<Frame> frames_of(const Row& row, const Marks& marks) {
  std::vector<Frame> found;
  for (const Run& run : row.runs()) {
    if (run.kind == Kind::word) continue;
    if (run.first == 0) row.refuse("a mark before every picture", "none before its first token");
    if (!found.empty() && row.id(run.first - 1) == marks.slice_start)
      found.back().slices.push_back(run);
    else
      found.push_back({run, {}});
  }
  return found;
}

// count points from 0 to last, as torch.linspace makes them in float32, rounded half to even.
std::vector<double> spread(std::int64_t last, std::int64_t count) {
  std::vector<double> points;
  const auto end = static_cast<float>(last), step = end / static_cast<float>(std::max<std::int64_t>(count - 1, 1));
  for (std::int64_t i = 0; i < count; ++i) {
    const float point = i < count / 2 ? step * static_cast<float>(i) : end - step * static_cast<float>(count - 1 - i);
    points.push_back(std::nearbyint(static_cast<double>(count == 1 ? 0 : point)));
  }
  return points;
}

// A crop over height x width of the canvas, whose place (0, 0) is down, right of its origin.
void lay_crop(Row& row, const Run& crop, const Area& grid, const Area& over, double down, double right) {
  const std::vector<double> rows = spread(over.height - 1, grid.height), columns = spread(over.width - 1, grid.width);
  for (std::int64_t i = 0; i < grid.tokens(); ++i) {
    row.place(crop.first + i) = {row.next, row.next + down + rows[static_cast<std::size_t>(i / grid.width)],
                                 row.next + right + columns[static_cast<std::size_t>(i % grid.width)]};
  }
}

// Slices stand row by row; a newline between two marks ends the first row. `over` becomes the canvas.
std::vector<Area> slices_of(Walk& walk, const Row& row, const Frame& frame, std::int64_t& columns, Area& over) {
  const std::vector<Run>& slices = frame.slices;
  std::size_t first_row = 1;
  while (first_row < slices.size() && slices[first_row].first - slices[first_row - 1].end <= 2) ++first_row;
  if (slices.empty() || slices.size() % first_row != 0) first_row = slices.size();
  columns = static_cast<std::int64_t>(first_row);
  std::vector<Area> grids;
  for (const Run& slice : slices) {
    grids.push_back(walk.next_grid(frame.thumbnail.kind, row));
    row.check(slice, grids.back().tokens());
  }
  if (!grids.empty()) {
    over = {1, static_cast<std::int64_t>(slices.size()) / columns * grids.front().height,
            columns * grids.front().width};
  }
  return grids;
}

void lay_frame(Walk& walk, Row& row, const Frame& frame, const Marks& marks) {
  const Run& thumbnail = frame.thumbnail;
  const std::vector<Run>& slices = frame.slices;
  const std::int64_t start = thumbnail.first - 1;
  std::int64_t end = slices.empty() ? thumbnail.end : slices.back().end, columns = 0;
  while (end < row.size() && marks.have(row.id(end))) ++end;
  if (start > row.token) row.words(start - row.token);
  const double origin = row.next;
  const auto mark = [&](std::int64_t token, double down, double right) {
    if (token < end) row.place(token) = {origin, origin + down, origin + right};
  };
  const Area grid = walk.grid_of(thumbnail, row);
  Area canvas = grid;
  const std::vector<Area> grids = slices_of(walk, row, frame, columns, canvas);
  for (std::int64_t token = start; token < end; ++token) row.place(token).fill(origin);
  if (origin > 0) mark(start, -1, -1);
  mark(thumbnail.end, real(canvas.height), real(canvas.width));
  lay_crop(row, thumbnail, grid, canvas, 0, 0);
  for (std::size_t k = 0; k < slices.size(); ++k) {
    const std::int64_t place = static_cast<std::int64_t>(k);
    const double down = real(place / columns * grids[0].height), right = real(place % columns * grids[0].width);
    mark(slices[k].first - 1, down, right);
    mark(slices[k].end, down + real(grids[k].height - 1), right + real(grids[k].width - 1));
    lay_crop(row, slices[k], grids[k], grids[k], down, right);
  }
  for (std::size_t k = 0; k + 1 < slices.size(); ++k) {
    const std::int64_t gap = slices[k].end, next = slices[k + 1].first;
    const double below = real((static_cast<std::int64_t>(k) / columns + 1) * grids[0].height - 1);
    for (std::int64_t token = gap + 1; next - gap > 2 && token < next - 1; ++token)
      mark(token, below, real(columns * grids[0].width));
  }
  row.next = origin + real(std::max(canvas.height, canvas.width)) + 1;
  row.token = end;
}

}  // namespace

ModelPositions canvas(const Call& call) {
  Manner manner{.takes = "ids mask images films", .flat = true};
  const auto id = [&](const char* key, bool needed) {
    return needed ? number_of(call, key, -1) : call.config.integer(key, 0, INT32_MAX).value_or(-1);
  };
  const bool images = !call.inputs.image_grids.empty(), films = !call.inputs.video_grids.empty();
  const bool any = images || films;
  manner.image = id("image_token_id", images);
  manner.video = id("video_token_id", films);
  manner.merge = call.config.text("downsample_mode").value_or("16x") == "4x" ? 2 : 4;
  const Marks marks{id("slice_start_id", any), id("slice_end_id", any), id("image_start_id", any),
                    id("image_end_id", any), id("newline_id", any)};
  Walk walk(call, manner);
  return walk.made([&](Row& row) {
    for (const Frame& frame : frames_of(row, marks)) lay_frame(walk, row, frame, marks);
    row.rest();
  });
}

}  // namespace rotary::made
