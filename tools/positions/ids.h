// Position ids: the functions between which model_positions() chooses, and the walk through the token ids of a batch,
// which the variants of M-RoPE share.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/families.h"
#include "rotary/positions.h"
#include "text/json.h"
#include "values/fail.h"

namespace rotary::made {

// How the patches of pictures are merged: as the model does, or with a mistake that check_ids() looks for.
enum class Merge : std::uint8_t { as_asked, left_out, left_out_behind };
// The arguments of a variant or a tower: the config of the model or of its part, the facts of files/models/models.json
// about its type, and the inputs. Precondition: sizes match, and every side of a grid is at least 1.
struct Call {
  const files::Object& config;
  const files::PositionFacts& facts;
  const ModelInputs& inputs;
  Merge merge = Merge::as_asked;
};
using Way = ModelPositions (*)(const Call&);

inline double real(std::int64_t value) { return static_cast<double>(value); }

// The way of a variant, or nullptr for none.
Way way_of(files::PositionVariant);
// model_positions() with this merging.
ModelPositions positions_with(const std::string& config, const ModelInputs&, Merge);

// Positions of a tower's patches, [axes, patches].
ModelPositions tower_positions(const Call&);

// Position ids of a model that only counts tokens, [batch, tokens].
ModelPositions counted(files::Counts, const ModelInputs&);

// Throws SHAPE and POSITION for sizes that do not fit each other, or are too large.
void check_sizes(const ModelInputs&);

// Throws POSITION for an input that is given but not among `takes`, words of "ids mask images films seconds sounds
// publisher".
void take_only(const ModelInputs&, std::string_view takes);

// Throws "[positions] rule but got VALUE". Got: text or a number.
template <class Got>
[[noreturn]] void refuse(Code code, const std::string& rule, const Got& got) {
  fail(code, "positions", rule, " but got ", got);
}

// "2 x 3 x 4".
template <class... Sizes>
std::string by(std::int64_t first, Sizes... others) {
  return (std::to_string(first) + ... + (" x " + std::to_string(others)));
}

// ---- the walk ----

enum class Kind : std::uint8_t { word, image, film, sound };

struct Area {
  std::int64_t time, height, width;  // in tokens, after merging
  std::int64_t tokens() const { return time * height * width; }
};

// Consecutive tokens of one kind in a row.
struct Run {
  Kind kind;
  std::int64_t first, end;
  std::int64_t size() const { return end - first; }
};

using Place = std::array<double, 4>;      // an id per axis; 0 beyond the model's axes
double greatest(std::span<const Place>);  // the greatest id on any axis

// A row of the batch without its masked tokens, and the places of its tokens.
struct Row {
  std::int64_t number;  // index in the batch
  std::vector<std::int64_t> columns = {}, ids = {};
  std::vector<Kind> kinds = {};
  std::vector<Place> places = {};  // for each token
  std::int64_t token = 0;          // the first token without a place
  double next = 0;                 // the place of a word here
  bool float32 = false;            // sums are in float32

  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
  std::int64_t id(std::int64_t i) const { return ids[static_cast<std::size_t>(i)]; }
  Kind kind(std::int64_t i) const { return kinds[static_cast<std::size_t>(i)]; }
  Place& place(std::int64_t i) { return places[static_cast<std::size_t>(i)]; }
  Run run_from(std::int64_t first) const;  // the run of first's kind from first on
  std::vector<Run> runs() const;
  void check(const Run&, std::int64_t tokens) const;  // throws if the run has another size

  double sum(double a, double b) const;
  void words(std::int64_t count);  // gives consecutive places to the next tokens
  void rest() { words(size() - token); }
  void again() { place(token) = place(token - 1), ++token; }  // gives the last place to the next token
  void add(std::span<const Place>);
  // The places of a grid that begins at `next`, row by row: times(frame) is the time of a frame.
  std::vector<Place> block(const Area&, const std::function<double(std::int64_t)>& times = real) const;

  // Throws POSITION, "row N of the ids must have RULE but got GOT".
  [[noreturn]] void refuse(const std::string& rule, const std::string& got) const;
};

// The facts in which variants differ outside of their rows. takes: for take_only.
struct Manner {
  std::string_view takes;
  int axes = 3;
  std::int64_t merge = 1, merge_time = 1;  // patches per side, and frames of a video, that make a token
  bool film_by_frame = false;              // a frame is a run of its own
  bool flat = false;                       // grids have no time axis
  std::int64_t image = -1, video = -1, audio = -1;
  std::int64_t film_start = -1, film_end = -1;  // images between these tokens are frames
  double masked = 0, masked_text = 0;           // place of masked tokens; the same if no row has a grid
  bool text_sees_mask = true;                   // rows without grids count visible tokens only
  enum class Delta : std::uint8_t { none, zero, greatest } delta = Delta::greatest;
  bool float32 = false;
};

class Walk {
 public:
  Walk(const Call&, const Manner&);

  // Gives every row its places by lay; a batch without grids only counts tokens.
  ModelPositions made(const std::function<void(Row&)>& lay);

  // The next grid of this kind; grid_of: the one whose tokens are the run. Throw if no grid fits.
  Area next_grid(Kind, const Row&);
  Area grid_of(const Run&, const Row&);
  Area unmerged(const Area& grid) const { return {grid.time, grid.height * manner_.merge, grid.width * manner_.merge}; }
  std::int64_t next_sound(const Row&);  // mel frames
  float seconds() const;                // seconds per grid of the video whose grid was used last, or 1
  std::size_t& taken(Kind kind) { return taken_[static_cast<std::size_t>(kind)]; }

 private:
  std::size_t take(Kind, const Row&);
  Row row_of(std::int64_t number, bool all) const;  // all: with its masked tokens
  double lay_text(Row&);                            // lays all tokens as words; returns the row's delta
  double lay_row(Row&, const std::function<void(Row&)>& lay);

  const ModelInputs& inputs_;
  Manner manner_;
  std::array<std::size_t, 4> taken_ = {}, given_ = {};
  std::int64_t frames_left_ = 0;
};

// A number of the config or of a part of it ("vision_config.spatial_merge_size"), or the class default if it is
// missing. A default of -1 means that there is none, and a missing number is refused.
std::int64_t number_of(const Call&, const std::string& key, std::int64_t class_default, std::int64_t least = 0);

}  // namespace rotary::made
