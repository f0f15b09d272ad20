#include "ids.h"

#include <algorithm>

namespace rotary::made {
namespace {

constexpr const char* words[] = {"word", "image", "video", "sound"};
const char* name(Kind kind) { return words[static_cast<std::size_t>(kind)]; }

// The kinds of all tokens of a row, also of masked ones, because a masked mark begins a video.
std::vector<Kind> kinds_of(std::span<const std::int64_t> ids, const Manner& manner) {
  std::vector<Kind> kinds;
  std::int64_t open = 0;  // videos that have begun and not ended
  for (const std::int64_t id : ids) {
    if (manner.film_start >= 0) open += (id == manner.film_start) - (id == manner.film_end);
    Kind kind = Kind::word;
    if (id >= 0 && id == manner.image) kind = open > 0 ? Kind::film : Kind::image;
    if (id >= 0 && id == manner.video) kind = Kind::film;
    if (id >= 0 && id == manner.audio) kind = Kind::sound;
    kinds.push_back(kind);
  }
  return kinds;
}

}  // namespace

std::int64_t number_of(const Call& call, const std::string& key, std::int64_t class_default, std::int64_t least) {
  const std::size_t dot = key.find('.');
  std::optional<files::Object> object = call.config;
  if (dot != std::string::npos) object = call.config.object(key.substr(0, dot));
  const auto own = object ? object->integer(key.substr(dot + 1), least, INT32_MAX) : std::nullopt;
  const std::int64_t number = own.value_or(class_default);
  if (number < 0) refuse(Code::CONFIG_MISSING, "the config must have " + call.config.path_of(key), "none");
  return number;
}

double greatest(std::span<const Place> places) {
  double most = 0;
  for (const Place& place : places) most = std::max(most, *std::max_element(place.begin(), place.end()));
  return most;
}

// ---- a row ----

Run Row::run_from(std::int64_t first) const {
  const auto begin = kinds.begin() + static_cast<std::ptrdiff_t>(first);
  return {*begin, first, std::find_if(begin, kinds.end(), [&](Kind kind) { return kind != *begin; }) - kinds.begin()};
}

std::vector<Run> Row::runs() const {
  std::vector<Run> found;
  for (std::int64_t first = 0; first < size(); first = found.back().end) found.push_back(run_from(first));
  return found;
}

void Row::refuse(const std::string& rule, const std::string& got) const {
  made::refuse(Code::POSITION, "row " + std::to_string(number) + " of the ids must have " + rule, got);
}

void Row::check(const Run& run, std::int64_t tokens) const {
  if (run.size() == tokens) return;
  const std::int64_t column = columns[static_cast<std::size_t>(run.first)];
  refuse(std::to_string(tokens) + " tokens for the " + name(run.kind) + " that begins at token " +
             std::to_string(column) + (run.kind == Kind::sound ? ", by its length," : ", by its grid after merging,"),
         std::to_string(run.size()));
}

double Row::sum(double a, double b) const {
  return float32 ? static_cast<double>(static_cast<float>(a) + static_cast<float>(b)) : a + b;
}

void Row::words(std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) place(token++).fill(sum(next, real(i)));
  next = sum(next, real(count));
}

void Row::add(std::span<const Place> more) {
  std::copy(more.begin(), more.end(), places.begin() + static_cast<std::ptrdiff_t>(token));
  token += static_cast<std::int64_t>(more.size());
}

std::vector<Place> Row::block(const Area& grid, const std::function<double(std::int64_t)>& times) const {
  std::vector<Place> made;
  for (std::int64_t t = 0; t < grid.time; ++t) {
    const double time = sum(next, times(t));
    for (std::int64_t i = 0; i < grid.height * grid.width; ++i)
      made.push_back({time, sum(next, real(i / grid.width)), sum(next, real(i % grid.width))});
  }
  return made;
}

// ---- the walk ----

Walk::Walk(const Call& call, const Manner& manner)
    : inputs_(call.inputs),
      manner_(manner),
      given_{0, inputs_.image_grids.size(), inputs_.video_grids.size(), inputs_.audio_lengths.size()} {
  take_only(inputs_, manner.takes);
  if (inputs_.ids.empty())
    refuse(Code::POSITION, "positions of this model must be made of token ids (--tokens)", "none");
  const std::size_t seconds = inputs_.seconds_per_grid.size();
  if (seconds != 0 && seconds != inputs_.video_grids.size())
    refuse(Code::SHAPE, "every video must have its seconds, of " + std::to_string(inputs_.video_grids.size()), seconds);
  for (const double second : inputs_.seconds_per_grid) {
    if (!(second >= 0 && second <= 1e6)) refuse(Code::POSITION, "seconds must be 0 to 1e6", std::to_string(second));
  }
}

Row Walk::row_of(std::int64_t number, bool all) const {
  const auto tokens = static_cast<std::size_t>(inputs_.tokens), first = static_cast<std::size_t>(number) * tokens;
  const std::span<const std::int64_t> ids = std::span(inputs_.ids).subspan(first, tokens);
  const std::vector<Kind> kinds = kinds_of(ids, manner_);
  Row row{.number = number, .float32 = manner_.float32};
  for (std::size_t token = 0; token < tokens; ++token) {
    if (!all && !inputs_.mask.empty() && inputs_.mask[first + token] == 0) continue;
    row.columns.push_back(static_cast<std::int64_t>(token));
    row.ids.push_back(ids[token]);
    row.kinds.push_back(kinds[token]);
  }
  row.places.resize(row.ids.size());
  return row;
}

// The index of the next grid or length.
std::size_t Walk::take(Kind kind, const Row& row) {
  const std::size_t given = given_[static_cast<std::size_t>(kind)];
  if (taken(kind) >= given) {
    const char* option = kind == Kind::sound  ? "length (--audio-lengths)"
                         : kind == Kind::film ? "grid (--video-grid)"
                                              : "grid (--image-grid)";
    row.refuse("a " + std::string(option) + " for every " + name(kind),
               given == 0 ? "none" : "more of them than the " + std::to_string(given) + " that are given");
  }
  return taken(kind)++;
}

Area Walk::next_grid(Kind kind, const Row& row) {
  const bool film = kind == Kind::film, frame = film && frames_left_ > 0;
  const std::size_t index = frame ? taken(kind) - 1 : take(kind, row);
  const auto [time, height, width] = (film ? inputs_.video_grids : inputs_.image_grids)[index];
  const std::int64_t side = manner_.merge, merge_time = film ? manner_.merge_time : 1;
  if (time % merge_time != 0 || height % side != 0 || width % side != 0)
    refuse(Code::POSITION, std::string("the grid of a ") + name(kind) + " must divide by " + by(merge_time, side, side),
           by(time, height, width));
  if (manner_.flat && time != 1) refuse(Code::POSITION, "this model's grids must have time 1", time);
  if (film && manner_.film_by_frame) frames_left_ = frame ? frames_left_ - 1 : time - 1;
  return {film && manner_.film_by_frame ? 1 : time / merge_time, height / side, width / side};
}

Area Walk::grid_of(const Run& run, const Row& row) {
  const Area grid = next_grid(run.kind, row);
  row.check(run, grid.tokens());
  return grid;
}

std::int64_t Walk::next_sound(const Row& row) { return inputs_.audio_lengths[take(Kind::sound, row)]; }

float Walk::seconds() const {
  const std::size_t film = taken_[static_cast<std::size_t>(Kind::film)] - 1;
  return inputs_.seconds_per_grid.empty() ? 1 : static_cast<float>(inputs_.seconds_per_grid[film]);
}

double Walk::lay_text(Row& row) {
  for (const Run& run : row.runs()) {
    if (run.kind == Kind::image || run.kind == Kind::film) next_grid(run.kind, row);  // refuses, since there is none
  }
  row.rest();
  const bool counts_masked = manner_.masked_text > 0 && row.size() < inputs_.tokens;
  return counts_masked ? std::max(row.next, manner_.masked_text + 1) - row.next : 0;
}

double Walk::lay_row(Row& row, const std::function<void(Row&)>& lay) {
  const bool counts = manner_.delta == Manner::Delta::greatest;
  if (row.ids.empty() && counts) row.refuse("a token where the mask is 1", "none");
  lay(row);
  const double most = greatest(row.places);
  if (most > 9e15) refuse(Code::POSITION, "positions must be at most 9e15", std::to_string(most));
  return counts ? row.sum(row.sum(most, 1), -real(row.size())) : 0;
}

ModelPositions Walk::made(const std::function<void(Row&)>& lay) {
  const bool text = inputs_.image_grids.empty() && inputs_.video_grids.empty();
  const std::int64_t batch = inputs_.batch, tokens = inputs_.tokens;
  std::vector<double> values(static_cast<std::size_t>(manner_.axes * batch * tokens),
                             text ? manner_.masked_text : manner_.masked);
  ModelPositions made;
  for (std::int64_t number = 0; number < batch; ++number) {
    Row row = row_of(number, text && !manner_.text_sees_mask);
    const double delta = text ? lay_text(row) : lay_row(row, lay);
    if (manner_.delta != Manner::Delta::none) made.deltas.push_back(delta);
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(manner_.axes); ++axis) {
      double* line = values.data() + (static_cast<std::int64_t>(axis) * batch + number) * tokens;
      for (std::size_t i = 0; i < row.places.size(); ++i) line[row.columns[i]] = row.places[i][axis];
    }
  }
  for (const Kind kind : {Kind::image, Kind::film, Kind::sound}) {
    const std::size_t given = given_[static_cast<std::size_t>(kind)];
    const bool short_film = kind == Kind::film && frames_left_ > 0;
    if (text || (taken(kind) == given && !short_film)) continue;
    refuse(Code::POSITION,
           "the ids must have as many " + std::string(name(kind)) + "s as there are grids or lengths, " +
               std::to_string(given) + ",",
           std::to_string(taken(kind)) +
               (short_film ? ", and the last of them lacks " + std::to_string(frames_left_) + " frames" : ""));
  }
  made.positions = {.axes = manner_.axes, .batch = static_cast<int>(batch), .batched = true, .tokens = tokens};
  if (manner_.float32)
    made.positions.reals = std::move(values);
  else
    made.positions.integers.assign(values.begin(), values.end());
  return made;
}

}  // namespace rotary::made
