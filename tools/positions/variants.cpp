// The variants of M-RoPE: position ids of models with images or audio, as in transformers 5.24. Each lays out a row of
// unmasked tokens; they share the walk (ids.h).
#include <algorithm>
#include <cmath>

#include "ids.h"

namespace rotary::made {
namespace {

// The token ids of images and videos, and the number of patches per token.
Manner seeing(const Call& call, std::string_view takes) {
  Manner manner{.takes = takes};
  manner.image = number_of(call, "image_token_id", call.facts.image);
  if (call.facts.video >= 0) manner.video = number_of(call, "video_token_id", call.facts.video);
  manner.merge = number_of(call, "vision_config.spatial_merge_size", 2, 1);
  return manner;
}

// ---- a picture begins where the words before it end; the words after it pass its larger side ----

ModelPositions pictures(const Call& call, const Manner& manner,
                        const std::function<double(const Walk&, std::int64_t)>& film_time) {
  Walk walk(call, manner);
  bool disputed = false;
  ModelPositions made = walk.made([&](Row& row) {
    for (const Run& run : row.runs()) {
      if (run.kind == Kind::word) row.words(run.size());
      if (run.kind == Kind::word) continue;
      const bool film = run.kind == Kind::film;
      const Area merged = walk.grid_of(run, row), whole = walk.unmerged(merged);
      std::vector<Place> block = row.block(call.merge == Merge::left_out ? whole : merged, [&](std::int64_t frame) {
        return film ? film_time(walk, frame) : real(frame);
      });
      block.resize(static_cast<std::size_t>(run.size()));
      row.add(block);
      const Area& grid = call.merge == Merge::as_asked ? merged : whole;
      const double side = row.next + real(std::max(grid.height, grid.width)), end = greatest(block) + 1;
      disputed = disputed || (film && side != end);
      row.next = film && call.inputs.publisher ? end : side;
    }
  });
  if (disputed) {
    made.notes.push_back(call.inputs.publisher
                             ? "after a video the text goes on from the greatest position, as in the publisher's code"
                             : "after a video the text goes on as in transformers 5.24, which does not count its time: "
                               "positions repeat; "
                               "the publisher's code goes on from the greatest position (--after-film publisher)");
  }
  return made;
}

double frames(const Walk&, std::int64_t frame) { return real(frame); }

ModelPositions whole_film(const Call& call) {
  return pictures(call, seeing(call, call.facts.video < 0 ? "ids mask images" : "ids mask images films publisher"),
                  frames);
}

ModelPositions film_in_seconds(const Call& call) {
  const auto rate = static_cast<float>(number_of(call, "vision_config.tokens_per_second", 4, 1));
  return pictures(call, seeing(call, "ids mask images films seconds publisher"),
                  [&](const Walk& walk, std::int64_t frame) {
                    const float step = rate * walk.seconds();
                    return std::trunc(static_cast<double>(static_cast<float>(frame) * step));
                  });
}

ModelPositions film_merged_in_time(const Call& call) {
  Manner manner = seeing(call, "ids mask images films publisher");
  manner.merge_time = number_of(call, "vision_config.temporal_merge_size", 2, 1);
  return pictures(call, manner, frames);
}

// Frames are separated by the words between them; with video marks in the facts they are images between the marks.
ModelPositions film_by_frame(const Call& call) {
  Manner manner = seeing(call, "ids mask images films");
  manner.film_by_frame = true;
  if (call.facts.start >= 0) {
    manner.film_start = number_of(call, "video_start_token_id", call.facts.start);
    manner.film_end = number_of(call, "video_end_token_id", call.facts.end);
  }
  return pictures(call, manner, frames);
}

// ---- pictures of other rules ----

// A row of patches has a newline as one more column. Every frame begins past the one before it, on all axes, and so
// does the word after the last.
ModelPositions frame_after_frame(const Call& call) {
  const Manner manner = seeing(call, "ids mask images films");
  Walk walk(call, manner);
  return walk.made([&](Row& row) {
    for (const Run& run : row.runs()) {
      if (run.kind == Kind::word) row.words(run.size());
      if (run.kind == Kind::word) continue;
      const Area grid = walk.next_grid(run.kind, row), frame = {1, grid.height, grid.width + 1};
      row.check(run, grid.time * frame.tokens());
      for (std::int64_t t = 0; t < grid.time; ++t) {
        row.add(row.block(frame));
        row.next += real(std::max(frame.height, frame.width));
      }
    }
  });
}

// All tokens between two marks are an image. Rows have equal numbers of grids; the grids of images that are still to be
// generated are the last.
ModelPositions between_marks(const Call& call) {
  Manner manner{.takes = "ids mask images", .masked = 1, .text_sees_mask = false, .delta = Manner::Delta::zero};
  manner.image = number_of(call, "image_token_id", call.facts.image);
  const std::int64_t start = number_of(call, "image_start_token_id", call.facts.start);
  const std::int64_t end = number_of(call, "image_end_token_id", call.facts.end);
  const std::size_t grids = call.inputs.image_grids.size(), rows = static_cast<std::size_t>(call.inputs.batch);
  if (grids % rows != 0)
    refuse(Code::POSITION, "every row must have as many grids, of " + std::to_string(rows) + " rows", grids);
  Walk walk(call, manner);
  return walk.made([&](Row& row) {
    std::vector<std::int64_t> starts;
    std::size_t closed = 0;
    for (std::int64_t i = 0; i < row.size(); ++i) {
      if (row.id(i) == start) starts.push_back(i);
      if (row.id(i) != end) continue;
      if (closed >= starts.size() || starts[closed] < row.token || starts[closed] >= i || closed >= grids / rows)
        row.refuse("a start before every end of an image, and a grid for it", "none for token " + std::to_string(i));
      row.words(starts[closed++] + 1 - row.token);
      const Area grid = walk.grid_of({Kind::image, row.token, i}, row);
      row.add(row.block(grid));
      row.next += real(std::max(grid.height, grid.width));
    }
    row.rest();
    walk.taken(Kind::image) = static_cast<std::size_t>(row.number + 1) * (grids / rows);
  });
}

// Words have their places in the row, whatever is between them. The last three axes of an image are column, row and its
// number in the batch; a row ends in one more column; a token may be on either side of it.
ModelPositions words_keep_counting(const Call& call) {
  Manner manner = seeing(call, "ids mask images");
  manner.flat = true;
  const std::optional<files::Object> text = call.config.object("text_config");
  manner.axes = 0;
  for (const char* parameters : {"rope_parameters", "rope_scaling"}) {
    const std::optional<files::Object> object = (text ? *text : call.config).object(parameters);
    for (const char* sections : {"mrope_section", "xdrope_section"}) {
      const auto given = object ? object->numbers(sections) : std::nullopt;
      if (given) manner.axes = static_cast<int>(given->size());
    }
  }
  if (manner.axes != 3 && manner.axes != 4)
    refuse(Code::CONFIG_VALUE, "rope_parameters.mrope_section must have 3 or 4 sections", manner.axes);
  Walk walk(call, manner);
  return walk.made([&](Row& row) {
    row.rest();
    for (const Run& run : row.runs()) {
      if (run.kind == Kind::word) continue;
      const Area grid = walk.next_grid(run.kind, row);
      const std::int64_t width = grid.width + 1, tokens = grid.height * width;
      const std::int64_t around = run.size() == tokens + 2 ? 1 : 0;
      row.check(run, tokens + 2 * around);
      for (std::int64_t i = 0; i < tokens; ++i) {
        double* axes = row.place(run.first + around + i).data() + (manner.axes - 3);
        axes[0] = real(i % width);
        axes[1] = real(i / width);
        axes[2] = static_cast<double>(walk.taken(Kind::image) - 1);
      }
    }
  });
}

// A row is a document with one image, or words: doc, img, then patches, with a mark at the end of each row.
ModelPositions page(const Call& call) {
  Manner manner{
      .takes = "ids mask images", .axes = 2, .flat = true, .text_sees_mask = false, .delta = Manner::Delta::none};
  manner.image = number_of(call, "image_token_id", call.facts.image);
  const std::int64_t document = number_of(call, "document_token_id", call.facts.start);
  Walk walk(call, manner);
  return walk.made([&](Row& row) {
    if (std::find(row.kinds.begin(), row.kinds.end(), Kind::image) == row.kinds.end()) return row.rest();
    const Area grid = walk.next_grid(Kind::image, row);
    const std::int64_t width = grid.width + 1;
    row.check({Kind::image, 0, row.size()}, 2 + grid.height * width);
    row.words(2);
    const std::int64_t mark = row.id(row.size() - 1);
    bool valid = row.id(0) == document && row.id(1) == manner.image && mark != manner.image;
    for (std::int64_t i = 0; i < grid.height * width; ++i) {
      valid = valid && row.id(row.token) == (i % width == grid.width ? mark : manner.image);
      row.place(row.token++) = {real(2 + i / width), real(2 + i % width)};
    }
    if (!valid) row.refuse("a document mark and an image whose rows end in one mark", "another order");
  });
}

// ---- a canvas: a thumbnail over the slices of the same picture ----

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
    if (run.first == 0) row.refuse("a mark before every image", "none before its first token");
    if (!found.empty() && row.id(run.first - 1) == marks.slice_start)
      found.back().slices.push_back(run);
    else
      found.push_back({run, {}});
  }
  return found;
}

// `count` points from 0 to last, as by torch.linspace in float32, rounded half to even.
std::vector<double> spread(std::int64_t last, std::int64_t count) {
  std::vector<double> points;
  const auto end = static_cast<float>(last), step = end / static_cast<float>(std::max<std::int64_t>(count - 1, 1));
  for (std::int64_t i = 0; i < count; ++i) {
    const float point = i < count / 2 ? step * static_cast<float>(i) : end - step * static_cast<float>(count - 1 - i);
    points.push_back(std::nearbyint(static_cast<double>(count == 1 ? 0 : point)));
  }
  return points;
}

// Lays a crop over height x width of the canvas; its place (0, 0) is at (down, right) from the origin.
void lay_crop(Row& row, const Run& crop, const Area& grid, const Area& over, double down, double right) {
  const std::vector<double> rows = spread(over.height - 1, grid.height), columns = spread(over.width - 1, grid.width);
  for (std::int64_t i = 0; i < grid.tokens(); ++i) {
    row.place(crop.first + i) = {row.next, row.next + down + rows[static_cast<std::size_t>(i / grid.width)],
                                 row.next + right + columns[static_cast<std::size_t>(i % grid.width)]};
  }
}

// The slices, row by row; a newline between two marks ends the first row. `over` becomes the canvas.
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
    const std::int64_t next = k + 1 < slices.size() ? slices[k + 1].first : 0;
    for (std::int64_t token = slices[k].end + 1; token < next - 1; ++token)
      mark(token, down + real(grids[0].height - 1), real(columns * grids[0].width));
  }
  row.next = origin + real(std::max(canvas.height, canvas.width)) + 1;
  row.token = end;
}

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

}  // namespace

ModelPositions omni_by_pieces(const Call&);  // omni.cpp
ModelPositions omni_by_time(const Call&);

Way way_of(files::PositionVariant variant) {
  using files::PositionVariant;
  switch (variant) {
    case PositionVariant::none:
      return nullptr;
    case PositionVariant::whole_film:
      return whole_film;
    case PositionVariant::film_in_seconds:
      return film_in_seconds;
    case PositionVariant::film_merged_in_time:
      return film_merged_in_time;
    case PositionVariant::film_by_frame:
      return film_by_frame;
    case PositionVariant::frame_after_frame:
      return frame_after_frame;
    case PositionVariant::between_marks:
      return between_marks;
    case PositionVariant::words_keep_counting:
      return words_keep_counting;
    case PositionVariant::page:
      return page;
    case PositionVariant::canvas:
      return canvas;
    case PositionVariant::omni_by_pieces:
      return omni_by_pieces;
    case PositionVariant::omni_by_time:
      return omni_by_time;
  }
  return nullptr;
}

}  // namespace rotary::made
