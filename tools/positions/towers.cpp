// The positions of a vision tower's patches, in the order of pixel_values, by the fields of files::PositionFacts.
#include <algorithm>

#include "ids.h"

namespace rotary::made {
namespace {

using files::ClassToken;
using files::PatchOrder;

using Grid = std::array<std::int64_t, 3>;
constexpr std::int64_t longest_side = 1 << 20;

void check_count(std::int64_t times, std::int64_t rows, std::int64_t columns) {
  if (rows > max_positions / columns || times > max_positions / (rows * columns)) {
    refuse(Code::POSITION, "there must be at most " + std::to_string(max_positions) + " patches",
           by(times, rows, columns));
  }
}

// [height, width] of a key, which may have one number for both.
std::array<std::int64_t, 2> sides_of(const Call& call, std::string_view dotted, std::int64_t default_value) {
  const std::size_t dot = dotted.rfind('.');
  const std::string key(dotted.substr(dot + 1));
  const files::Json* holder = files::object_at(call.config.json(), dot == dotted.npos ? "" : dotted.substr(0, dot));
  files::Ledger ledger;
  const files::Object object(holder != nullptr ? *holder : call.config.json(), call.config.path(), ledger);
  const files::Json* value = holder != nullptr ? object.value(key) : nullptr;
  if (value == nullptr) return {default_value, default_value};
  if (!value->is_array()) {
    const std::int64_t side = object.integer(key, 1, longest_side).value_or(default_value);
    return {side, side};
  }
  std::vector<int> list = object.integers(key).value_or(std::vector<int>());
  if (list.size() != 2 || std::ranges::min(list) < 1) object.refuse(key, "must be an integer or [height, width]");
  if (call.facts.width_first) std::swap(list[0], list[1]);
  return {list[0], list[1]};
}

// The grid of the config; empty if its class has none.
std::vector<Grid> own_grid(const Call& call) {
  if (call.facts.side == 0) return {};
  const auto image = sides_of(call, call.facts.side_key, call.facts.side);
  const auto patch = sides_of(call, call.facts.patch_key, call.facts.patch);
  std::int64_t frames = 1;
  if (call.facts.clip) {
    const std::int64_t steps = sides_of(call, "frames_per_clip", call.facts.frames)[0];
    frames = std::max<std::int64_t>(1, steps / sides_of(call, "tubelet_size", 2)[0]);
  }
  if (image[0] < patch[0] || image[1] < patch[1]) {
    refuse(Code::CONFIG_VALUE, "an image must be at least a patch, " + by(patch[0], patch[1]), by(image[0], image[1]));
  }
  check_count(frames, image[0] / patch[0], image[1] / patch[1]);
  return {{frames, image[0] / patch[0], image[1] / patch[1]}};
}

std::vector<Grid> grids_of(const Call& call, const std::vector<Grid>& own) {
  std::vector<Grid> given = call.inputs.image_grids;
  given.insert(given.end(), call.inputs.video_grids.begin(), call.inputs.video_grids.end());
  if (given.empty()) given = own;
  if (given.empty()) refuse(Code::POSITION, "the grids of the images (--image-grid) must be given", "none");
  for (const Grid& grid : given) {
    if (call.facts.fixed_grid && (grid[1] != own[0][1] || grid[2] != own[0][2])) {
      refuse(Code::POSITION, "the grid must be the grid of the config, " + by(own[0][1], own[0][2]),
             by(grid[1], grid[2]));
    }
  }
  return given;
}

// The positions along one side, by the number of patches on it.
std::vector<double> places(const Call& call, std::int64_t count, std::int64_t columns) {
  const auto first = static_cast<double>(call.facts.first);
  const bool centres = call.facts.order == PatchOrder::centres;
  const auto window = static_cast<double>(
      call.facts.order == PatchOrder::windows ? sides_of(call, "window_size", call.facts.window)[0] : columns);
  std::vector<double> found;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<double>(i);
    found.push_back(centres ? 2 * (at + 0.5) / static_cast<double>(count) - 1
                            : first + at * window / static_cast<double>(columns));
  }
  return found;
}

// Appends the positions of an image, axis by axis.
void append(const Call& call, Grid grid, bool film, std::vector<std::vector<double>>& axes) {
  const auto add_class = [&](ClassToken where) {
    if (call.facts.class_token != where) return;
    for (std::vector<double>& axis : axes) axis.push_back(0);
  };
  const bool blocks = call.facts.order == PatchOrder::blocks || (film && call.facts.order == PatchOrder::film_blocks);
  const std::int64_t merge = blocks ? sides_of(call, call.facts.merge_key, call.facts.merge)[0] : 1;
  if (call.facts.grid_of_blocks) grid = {grid[0], grid[1] * merge, grid[2] * merge};
  check_count(grid[0], grid[1], grid[2]);
  const std::vector<std::int64_t> frame = image_positions(grid[1], grid[2], merge).integers;
  const std::size_t patches = frame.size() / 2, in_front = axes.size() - 2;
  const std::array place = {places(call, grid[1], grid[2]), places(call, grid[2], grid[2])};
  add_class(ClassToken::before);
  for (std::int64_t t = 0; t < grid[0]; ++t) {
    if (in_front == 1) axes[0].insert(axes[0].end(), patches, real(t));
    for (std::size_t i = 0; i < 2 * patches; ++i)
      axes[in_front + i / patches].push_back(place[i / patches][static_cast<std::size_t>(frame[i])]);
  }
  add_class(ClassToken::after);
}

}  // namespace

ModelPositions tower_positions(const Call& call) {
  take_only(call.inputs, "images films");
  const std::vector<Grid> own = own_grid(call);
  std::vector<std::vector<double>> axes(call.facts.frame_axis ? 3 : 2);
  std::size_t picture = 0;
  for (const Grid& grid : grids_of(call, own)) {
    const std::size_t before = axes[0].size();
    check_count(static_cast<std::int64_t>(before), 1, 1);
    const bool film = picture++ >= call.inputs.image_grids.size();
    if (!call.facts.clip) {
      append(call, grid, film, axes);
      continue;
    }
    const std::int64_t patches = grid[0] * grid[1] * grid[2], frame = own[0][1] * own[0][2];
    append(call, {(patches - 1) / frame + 1, own[0][1], own[0][2]}, film, axes);
    for (std::vector<double>& axis : axes) axis.resize(before + static_cast<std::size_t>(patches));
  }
  ModelPositions made;
  PositionSet& set = made.positions = {.axes = static_cast<int>(axes.size()), .tokens = std::ssize(axes[0])};
  std::vector<double> all;
  for (const std::vector<double>& axis : axes) all.insert(all.end(), axis.begin(), axis.end());
  if (call.facts.order == PatchOrder::centres || call.facts.order == PatchOrder::windows)
    set.reals = std::move(all);
  else
    set.integers.assign(all.begin(), all.end());
  return made;
}

}  // namespace rotary::made
