// Models with audio: sounds, and videos with sound.
#include <algorithm>
#include <cmath>

#include "ids.h"

namespace rotary::made {
namespace {

// The tokens of a video with sound in their order, and the greatest id of the last piece.
struct Mixed {
  std::vector<Place> places = {};
  double last = 0;
  void add(std::span<const Place> piece) {
    places.insert(places.end(), piece.begin(), piece.end());
    last = greatest(piece);
  }
};

// Mixes them by time; at equal times the video is first. Either may be empty.
Mixed mixed_by_time(std::span<const Place> film, std::span<const Place> sound) {
  Mixed mixed;
  while (!film.empty() && !sound.empty()) {
    std::span<const Place>& first = film[0][0] <= sound[0][0] ? film : sound;
    mixed.places.push_back(first[0]);
    first = first.subspan(1);
  }
  mixed.add(film.empty() ? sound : film);
  return mixed;
}

// Pieces of that many ids; a token begins at most one piece, however late it is.
std::vector<std::span<const Place>> pieces(std::span<const Place> places, std::int64_t ids) {
  std::vector<std::span<const Place>> found;
  const double start = places[0][0];
  std::size_t first = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i][0] - start < static_cast<double>(found.size() + 1) * real(ids)) continue;
    found.push_back(places.subspan(first, i - first));
    first = i;
  }
  found.push_back(places.subspan(first));
  return found;
}

// Mixes them by pieces of time, with the video first.
Mixed mixed_by_pieces(std::span<const Place> film, std::span<const Place> sound, std::int64_t ids) {
  Mixed mixed;
  const auto films = pieces(film, ids), sounds = pieces(sound, ids);
  for (std::size_t i = 0; i < std::max(films.size(), sounds.size()); ++i) {
    if (i < films.size()) mixed.add(films[i]);
    if (i < sounds.size()) mixed.add(sounds[i]);
  }
  return mixed;
}

// The facts in which the two omni models differ: `merged` has float32 ids with fractions, two start and two end tokens
// of a video with sound, and mixes it by time.
struct Omni {
  bool merged;
  std::int64_t per_second, piece = 0, window = 0;  // ids; ids; audio frames of half a chunk
  std::int64_t vision_start = -1, audio_start = -1;

  std::int64_t sound_tokens(std::int64_t length) const {
    const std::int64_t chunk = 2 * window, rest = length % chunk;
    const std::int64_t tokens = merged       ? (rest + 7) / 8 + length / chunk * 13  // three times halved, rounded up
                                : length < 3 ? 0
                                             : ((length - 1) / 2 - 1) / 2 + 1;
    if (tokens < 1) refuse(Code::POSITION, "an audio length must make at least one token (3 frames do)", length);
    return tokens;
  }
  // Checks that the tokens that a start mark announces follow it.
  void check_start(const Row& row, std::int64_t word) const {
    const bool vision = row.id(word) == vision_start, last = word + 1 == row.size();
    if (!vision && row.id(word) != audio_start) return;
    if (last || (row.kind(word + 1) == Kind::word && !(vision && row.id(word + 1) == audio_start)))
      row.refuse("an image, a video or a sound after every start mark", last ? "nothing" : "a word");
  }
};

// The tokens of an image, a video or a sound, or of a video with its sound.
struct Piece {
  Run run;
  bool sounding;
  std::int64_t marks() const { return sounding ? 2 : 1; }  // before it, and the same number after it
};

Piece piece_from(const Row& row, const Omni& omni, std::int64_t first) {
  const auto marked = [&](std::int64_t before, std::int64_t id) {
    return first - before >= row.token && row.id(first - before) == id;
  };
  Piece piece{row.run_from(first), marked(2, omni.vision_start) && marked(1, omni.audio_start)};
  std::int64_t& end = piece.run.end;
  while (piece.sounding && end < row.size() && row.kind(end) != Kind::word) ++end;
  const bool sound = piece.run.kind == Kind::sound;
  if (sound ? piece.sounding || !marked(1, omni.audio_start) : !piece.sounding && !marked(1, omni.vision_start))
    row.refuse("a start mark before every image, video and sound", "none before its token " + std::to_string(first));
  if (end + piece.marks() > row.size()) row.refuse("an end mark after every image, video and sound", "none");
  return piece;
}

void lay_piece(Walk& walk, Row& row, const Omni& omni, const Piece& piece) {
  const Run& run = piece.run;
  row.words(run.first - piece.marks() - row.token);
  row.words(omni.merged ? piece.marks() : 1);
  if (piece.sounding && !omni.merged) row.again();
  const bool sees = run.kind != Kind::sound, hears = !sees || piece.sounding;
  const Area grid = sees ? walk.next_grid(run.kind, row) : Area{0, 0, 0};
  const std::int64_t tokens = hears ? omni.sound_tokens(walk.next_sound(row)) : 0;
  row.check(run, grid.tokens() + tokens);
  if (piece.sounding) {
    const auto begin = row.kinds.begin();
    const auto films = std::count(begin + run.first, begin + run.end, Kind::film);
    row.check({Kind::film, run.first, run.first + films}, grid.tokens());
  }
  std::vector<Place> seen, heard;
  if (sees) {
    const float seconds = run.kind == Kind::film ? walk.seconds() : 1, rate = static_cast<float>(omni.per_second);
    seen = row.block(grid, [&](std::int64_t frame) {
      const auto time = static_cast<double>(static_cast<float>(frame) * seconds * rate);
      return omni.merged ? time : std::trunc(time);
    });
  }
  for (std::int64_t i = 0; i < tokens; ++i) heard.emplace_back().fill(row.sum(row.next, real(i)));
  const bool by_time = omni.merged || !piece.sounding;
  const Mixed mixed = by_time ? mixed_by_time(seen, heard) : mixed_by_pieces(seen, heard, omni.piece);
  row.add(mixed.places);
  row.next = row.sum(mixed.last, 1);
  row.words(1);
  if (piece.sounding) omni.merged ? row.words(1) : row.again();
}

ModelPositions omni(const Call& call, bool merged) {
  Manner manner{.takes = "ids mask images films seconds sounds", .masked = merged ? 0.0 : 1.0, .masked_text = 1};
  manner.float32 = merged;
  const ModelInputs& inputs = call.inputs;
  const bool seen = !inputs.image_grids.empty() || !inputs.video_grids.empty();
  if (!inputs.video_grids.empty() && inputs.seconds_per_grid.empty())
    refuse(Code::POSITION, "the seconds per grid of the videos (--seconds-per-grid) must be given", "none");
  const auto token = [&](const std::string& kind, std::int64_t class_default) {
    const std::string key = kind + "_token_id";  // the class by pieces also has "_token_index"
    return number_of(call, merged || call.config.has(key) ? key : kind + "_token_index", class_default);
  };
  manner.image = token("image", call.facts.image);
  manner.video = token("video", call.facts.video);
  manner.audio = token("audio", call.facts.audio);
  manner.merge = number_of(call, "vision_config.spatial_merge_size", 2, 1);
  Omni facts{.merged = merged, .per_second = number_of(call, "position_id_per_seconds", 25, 1)};
  if (seen) facts.vision_start = number_of(call, "vision_start_token_id", -1);
  facts.audio_start = number_of(call, "audio_start_token_id", call.facts.start);
  facts.piece = facts.per_second * number_of(call, "seconds_per_chunk", 2, 1);
  facts.window = number_of(call, "audio_config.n_window", 50, 1);
  std::optional<bool> sounding;  // whether the videos have sound: all of them, or none
  Walk walk(call, manner);
  return walk.made([&](Row& row) {
    for (std::int64_t first = 0; first < row.size(); ++first) {
      if (row.kind(first) == Kind::word) {
        facts.check_start(row, first);
        continue;
      }
      const Piece piece = piece_from(row, facts, first);
      if (piece.run.kind == Kind::film) {
        if (sounding.value_or(piece.sounding) != piece.sounding)
          row.refuse("videos that all sound, or none that does", "one of the other kind");
        sounding = piece.sounding;
      }
      lay_piece(walk, row, facts, piece);
      first = row.token - 1;
    }
    row.rest();
  });
}

}  // namespace

ModelPositions omni_by_pieces(const Call& call) { return omni(call, false); }
ModelPositions omni_by_time(const Call& call) { return omni(call, true); }

}  // namespace rotary::made
