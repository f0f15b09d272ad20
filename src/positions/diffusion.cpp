// The coordinates of a diffusion transformer's tokens, [axes, tokens], as its pipeline in diffusers prepares them. What
// differs between the classes stands in data/models.json ("drawn"), as formulas of
//   side, height, width, film, fps   the image in pixels, its frames and how many of them make a second
//   vae, vae_time                    pixels to a side of a latent; frames to one
//   frames, rows, columns            tokens on the sides of this image; frame, row, column: the one of this token
//   first                            the index of the first frame, where the row has indices
//   picture                          of a reference its number, from 1; of the image 0
//   text, count                      how many tokens of text, and how many of its part stand before this one
//   most                             of all images, the most tokens that a side has
// and the keys of the config ("patch_size.1": a list's second number).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "formula.h"
#include "made.h"
#include "values/number_text.h"

namespace rotary::made {
namespace {

using detail::shortest, detail::significant;
using Sides = std::array<std::int64_t, 2>;

void in(std::int64_t value, std::int64_t least, const char* what) {
  if (value >= least && value <= max_positions) return;
  refuse(Code::POSITION,
         std::string(what) + " must be " + std::to_string(least) + " to " + std::to_string(max_positions),
         std::to_string(value));
}

std::string text_of(const Sides& size) { return std::to_string(size[0]) + " x " + std::to_string(size[1]); }

// A number or a flag of the config, or of "key.word" whether its text is the word; of null, none.
std::optional<double> own_number(const files::Object& config, std::string_view name) {
  const std::size_t dot = name.find('.');
  const std::string key(name.substr(0, dot));
  const files::Json* value = config.value(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>() ? 1 : 0;
  if (value->is_string() && dot != name.npos) return *value == name.substr(dot + 1) ? 1 : 0;
  if (dot == name.npos) return config.number(key);
  const std::vector<double> list = config.numbers(key).value();
  const auto index = static_cast<std::size_t>(name[dot + 1] - '0');
  return index < list.size() ? std::optional(list[index]) : std::nullopt;
}

std::optional<double> default_number(std::string_view defaults, std::string_view name) {
  for (const std::string_view word : files::words(defaults)) {
    const std::size_t sign = word.find('=');
    if (word.substr(0, sign) != name) continue;
    double number = 0;
    std::from_chars(word.data() + sign + 1, word.data() + word.size(), number);
    return number;
  }
  return std::nullopt;
}

class Drawer {
 public:
  explicit Drawer(const Call& call)
      : call_(call),
        facts_(call.facts.drawn),
        given_(call.inputs.drawing.value_or(Drawing{})),
        names_([this](std::string_view name) { return number(name); }) {}

  ModelPositions made() {
    check();
    place_names();
    if (!facts_.remark.empty()) notes_.emplace_back(facts_.remark);
    const auto image = names_.list(facts_.image), text = names_.list(facts_.text), sound = names_.list(facts_.sound);
    axes_.resize(std::max({image.size(), text.size(), sound.size()}));
    for (const std::string_view part : files::words(facts_.sequence)) {
      if (part == "past" && !facts_.past.empty() && names_["first"] > 0) add_past();
      if (part == "text") add_counted(text, names_["text"]);
      if (part == "sound" && !sound.empty()) add_counted(sound, tokens(facts_.sound_tokens, 1, "tokens of sound"));
      if (part == "image" && !image.empty()) add_image(image, given_.size, 0);
      for (std::size_t i = 0; part == "references" && i < given_.references.size(); ++i)
        add_image(names_.list(facts_.references), given_.references[i], static_cast<double>(i + 1));
    }
    return finished();
  }

 private:
  double number(std::string_view name) const {
    const std::optional<double> own = own_number(call_.config, name);
    const std::optional<double> found = own ? own : default_number(facts_.defaults, name);
    const std::string key(name.substr(0, name.find('.')));
    if (const files::Json* value = call_.config.value(key); !own && value != nullptr && value->is_array())
      call_.config.refuse(key, "must have more numbers");
    if (found) return *found;
    if (name == "vae_time") {
      refuse(Code::POSITION, "the pipelines of this class differ in their VAE, whose scale of time must be given",
             "none");
    }
    if (name == "fps") refuse(Code::POSITION, "fps must be given, of which this class has no default,", "none");
    refuse(Code::CONFIG_MISSING, "the config must have " + call_.config.path_of(name), "none");
  }

  // What the class takes and needs.
  void check() const {
    const auto takes = [](bool taken, bool given, const std::string& what) {
      if (given && !taken) refuse(Code::POSITION, "this class takes no " + what, "some");
    };
    const bool turns_text = !facts_.text.empty(), film = !facts_.frames.empty(), image = !facts_.image.empty();
    const bool indexed = !given_.frame_indices.empty();
    const auto names_fps = [](std::string_view formula) { return formula.find("fps") != formula.npos; };
    takes(turns_text, given_.text.has_value(), "text: none turns with its images");
    takes(!facts_.references.empty(), !given_.references.empty(), "reference images");
    takes(film, given_.frames != 0, "frames");
    takes(!facts_.indices.empty(), indexed, "indices of frames");
    takes(image, given_.size != Sides{}, "size of an image");
    takes(names_fps(facts_.image) || names_fps(facts_.sound_tokens), given_.fps != 0, "frames per second");
    takes(facts_.frames.find("vae_time") != facts_.frames.npos, given_.vae_scale_time != 0, "scale of a VAE's time");
    if (given_.references.size() > 1 && facts_.references.find("picture") == facts_.references.npos)
      refuse(Code::POSITION, "this class takes one reference image", std::to_string(given_.references.size()));
    if (image && given_.size == Sides{}) refuse(Code::POSITION, "the size of the image must be given", "none");
    if (turns_text && !given_.text)
      refuse(Code::POSITION, "text, the number of its tokens, must be given, 0 too,", "none");
    if (film && (given_.frames == 0) != indexed)
      refuse(Code::POSITION,
             std::string("the frames of the film") + (facts_.indices.empty() ? "" : ", or their indices,") +
                 " must be given",
             indexed ? "both" : "none");
    in(given_.text.value_or(0), 0, "the text's tokens");
    in(given_.frames, 0, "frames");
    in(given_.vae_scale, 0, "the VAE's scale");
    in(given_.vae_scale_time, 0, "the VAE's scale of time");
    if (!(given_.fps >= 0 && given_.fps <= 1e6)) refuse(Code::POSITION, "fps must be 0 to 1e6", shortest(given_.fps));
    for (const std::int64_t index : given_.frame_indices) in(index, 0, "the index of a frame");
    for (const std::int64_t side : given_.size) in(side, image ? 1 : 0, "a side of the image");
    for (const Sides& size : given_.references) {
      for (const std::int64_t side : size) in(side, 1, "a side of a reference");
    }
  }

  void place_names() {
    for (const char* name : {"frame", "row", "column", "picture", "count", "most"}) names_.set(name, 0);
    names_.set("film", real(given_.frames));
    names_.set("text", real(given_.text.value_or(0)));
    if (given_.fps > 0) names_.set("fps", given_.fps);
    if (given_.vae_scale > 0) names_.set("vae", real(given_.vae_scale));
    if (given_.vae_scale_time > 0) names_.set("vae_time", real(given_.vae_scale_time));
    if (!facts_.where.empty() && names_[facts_.where] == 0) {
      refuse(Code::CONFIG_VALUE, "this class turns nothing unless " + std::string(facts_.where) + " is set",
             "a config that does not set it");
    }
    if (!facts_.text_tokens.empty()) names_.set("text", tokens(facts_.text_tokens, 0, "tokens of text"));
    place_frames();
    if (facts_.image.empty()) return;
    double most = 0;
    const auto measure_next = [&](const Sides& size) {
      measure(size);
      most = std::max({most, names_["rows"], names_["columns"]});
    };
    for (const Sides& size : given_.references) measure_next(size);
    measure_next(given_.size);
    names_.set("most", most);
  }

  // How many tokens there are in time, and which index each has.
  void place_frames() {
    names_.set("frames", facts_.frames.empty()          ? 1
                         : given_.frame_indices.empty() ? tokens(facts_.frames, 1, "tokens in time")
                                                        : real(static_cast<std::int64_t>(given_.frame_indices.size())));
    for (const std::int64_t index : given_.frame_indices) indices_.push_back(real(index));
    if (!indices_.empty()) {
      names_.set("first", indices_[0]);
      return;
    }
    names_.set("first", 0);
    const auto index = names_.list(facts_.indices.empty() ? "frame" : facts_.indices);
    for (double frame = 0; frame < names_["frames"]; ++frame) {
      names_.set("frame", frame);
      indices_.push_back(index[0]());
    }
    if (facts_.whole.empty()) return;
    const double whole = names_.one(facts_.whole)();
    if (whole == real(given_.frames)) return;
    notes_.push_back(shortest(real(given_.frames)) + " frames are " + shortest(names_["frames"]) +
                     " tokens in time, those of " + shortest(whole) + " frames, as the pipeline rounds them");
  }

  // The count that a formula gives.
  double tokens(std::string_view formula, double least, const char* what) {
    const double count = names_.one(formula)();
    if (!(count >= least && count <= real(max_positions) && count == std::floor(count))) {
      refuse(Code::POSITION, std::string(what) + " must be " + shortest(least) + " to " + std::to_string(max_positions),
             shortest(count));
    }
    return count;
  }

  // The rows and columns of an image, and what its formulas share.
  void measure(const Sides& size) { measure(size, facts_.unit); }

  void measure(const Sides& size, std::string_view unit) {
    names_.set("height", real(size[0]));
    names_.set("width", real(size[1]));
    const std::vector<Formula> units = names_.list(unit);
    for (const std::size_t i : {0U, 1U}) {
      names_.set("side", real(size[i]));
      units_[i] = units[std::min(i, units.size() - 1)]();
      if (!(units_[i] > 0)) {
        refuse(Code::CONFIG_VALUE, "the pixels to a side of a token, " + std::string(unit) + ", must be above 0",
               shortest(units_[i]));
      }
      names_.set("unit", units_[i]);
      check_exact(size, size[i]);
      names_.set(i == 0 ? "rows" : "columns", tokens(facts_.count, 1, "tokens to a side of an image"));
    }
    names_.define(facts_.let);
  }

  void check_exact(const Sides& size, std::int64_t side) {
    if (facts_.exact.empty()) return;
    const double exact = names_.one(facts_.exact)();
    if (std::fmod(real(side), exact) == 0) return;
    refuse(Code::POSITION, "height and width must divide by " + shortest(exact) + ", as the pipeline wants",
           text_of(size));
  }

  void check_total(double more) const {
    if (real(static_cast<std::int64_t>(axes_[0].size())) + more > real(max_positions))
      refuse(Code::POSITION, "there must be at most " + std::to_string(max_positions) + " tokens", "more");
  }

  void add(const std::vector<Formula>& formulas) {
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) axes_[axis].push_back(formulas[axis]());
  }

  // Tokens at 0 behind the `from` that are there, up to the number that the formula gives.
  void pad(std::string_view formula, std::size_t from) {
    if (formula.empty()) return;
    const double count = tokens(formula, 0, "tokens");
    const auto to = std::max(axes_[0].size(), from + static_cast<std::size_t>(count));
    check_total(real(static_cast<std::int64_t>(to - axes_[0].size())));
    for (std::vector<double>& axis : axes_) axis.resize(to);
  }

  void add_counted(const std::vector<Formula>& formulas, double count) {
    if (formulas.empty()) return;
    check_total(count);
    for (double i = 0; i < count; ++i) {
      names_.set("count", i);
      add(formulas);
    }
  }

  void add_image(const std::vector<Formula>& formulas, const Sides& size, double picture) {
    measure(size);
    note_rounding(size);
    names_.set("picture", picture);
    const std::size_t before = axes_[0].size();
    add_grid(formulas, picture > 0 ? std::vector<double>{0} : indices_);
    pad(facts_.image_tokens, before);
  }

  // The frames before the first, whose tokens are larger.
  void add_past() {
    measure(given_.size, facts_.past_unit);
    std::vector<double> frames(static_cast<std::size_t>(names_["first"]));
    std::iota(frames.begin(), frames.end(), 0.0);
    add_grid(names_.list(facts_.past), frames);
  }

  void add_grid(const std::vector<Formula>& formulas, const std::vector<double>& frames) {
    const double rows = names_["rows"], columns = names_["columns"];
    check_total(real(static_cast<std::int64_t>(frames.size())) * rows * columns);
    for (const double frame : frames) {
      names_.set("frame", frame);
      for (double row = 0; row < rows; ++row) {
        names_.set("row", row);
        for (double column = 0; column < columns; ++column) {
          names_.set("column", column);
          add(formulas);
        }
      }
    }
  }

  void note_rounding(const Sides& size) {
    const double rows = names_["rows"], columns = names_["columns"];
    if (rows * units_[0] == real(size[0]) && columns * units_[1] == real(size[1])) return;
    const std::string unit = significant(units_[0], 6), wide = significant(units_[1], 6);
    notes_.push_back(text_of(size) + " pixels are " + shortest(rows) + " x " + shortest(columns) + " tokens of " +
                     (unit == wide ? unit : unit + " x " + wide) + " pixels, as the pipeline rounds them");
  }

  ModelPositions finished() {
    ModelPositions made;
    made.notes = std::move(notes_);
    PositionSet& set = made.positions;
    set.axes = static_cast<int>(axes_.size());
    set.tokens = static_cast<std::int64_t>(axes_[0].size());
    for (const std::vector<double>& axis : axes_) {
      for (const double at : axis) {
        if (!(std::abs(at) <= 9e15)) refuse(Code::CONFIG_VALUE, "coordinates must be at most 9e15", shortest(at));
        if (facts_.reals)
          set.reals.push_back(at);
        else
          set.integers.push_back(static_cast<std::int64_t>(at));
      }
    }
    return made;
  }

  const Call& call_;
  const files::Drawn& facts_;
  const Drawing given_;
  Names names_;
  std::vector<std::vector<double>> axes_;
  std::array<double, 2> units_ = {};
  std::vector<double> indices_;  // of the frames
  std::vector<std::string> notes_;
};

// The row of the class, or of what a key makes of it.
files::PositionFacts facts_of(const Call& call) {
  for (const std::string_view key : files::words(call.facts.drawn.others)) {
    if (own_number(call.config, key).value_or(0) == 0) continue;
    return files::find_positions(call.config.text("_class_name").value_or("") + "." + std::string(key)).value();
  }
  return call.facts;
}

}  // namespace

ModelPositions drawn_positions(const Call& call) {
  take_only(call.inputs, "drawing");
  const files::PositionFacts facts = facts_of(call);
  return Drawer({call.config, facts, call.inputs}).made();
}

}  // namespace rotary::made
