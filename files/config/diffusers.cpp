// The config.json of a model of diffusers: the ropes of its class and of the class's parts, by their rows
// (files/models/diffusers.h).
#include "models/diffusers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "rotary/error.h"
#include "stages.h"
#include "text/json.h"
#include "text/nearest.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

class DiffusersReader {
 public:
  DiffusersReader(const Part& part, const DiffusersRope& row)
      : part_(part), row_(row), defaults_(default_keys(part, row)), axes_(row.axes) {}

  void read() {
    part_.origins() = {};
    for (const std::string_view key : row_.harmless) ignore_known(part_.keys, std::string(key));
    model_.part = part_.path;
    model_.axis_names.assign(axes_.begin(), axes_.end());
    model_.coordinates = axes_.size() > 1;
    read_layers();
    if (!turns()) return;
    ModelPart& whole = part_.add_to_model(static_cast<int>(model_.layers.size()));
    const Pairing own = pairing();
    model_.rope.pairing = given_pairing(part_, own, name(own) + (" of " + part_.name()));
    read_heads();
    read_base();
    if (!row_.longrope.empty()) whole.context = read_longrope();
    if (!row_.remark.empty()) part_.note(NoteKind::model, row_.remark);
    if (row_.laid == Laid::blocks) return add_blocks();
    lay_out();
    add(std::move(model_));
  }

 private:
  static Object default_keys(const Part& part, const DiffusersRope& row) {
    Reading& reading = part.reading;
    return {reading.defaults.emplace_back(parse_json(row.defaults)), "", reading.ledger, part.name()};
  }

  // The object that has the key: the file, else the class defaults, with a note.
  const Object& says(const std::string& key) const {
    part_.keys.mark(key);
    if (part_.keys.has(key)) return part_.keys;
    if (!defaults_.has(key)) missing(part_, key, key);
    part_.note(NoteKind::model_default, key, " is not given: ", shown(defaults_.json().at(key)), ", the default of ",
               part_.name());
    return defaults_;
  }

  // The key that counts among alternative keys: the first that the file has, else the last.
  std::string choose_key(const std::vector<std::string_view>& keys) const {
    std::string key;
    for (const std::string_view word : keys) {
      part_.keys.mark(word);
      if (key.empty() || !part_.keys.has(key)) key = word;
    }
    return key;
  }

  int whole(const char* value, std::string_view key_of_row, int most) const {
    const std::string key(key_of_row);
    const Object& from = says(key);
    if (value != nullptr) part_.origins().read(value, from, key);
    return static_cast<int>(*from.integer(key, 1, most));
  }

  void read_layers() {
    int count = 0;
    const std::vector<std::string_view>& keys = row_.layers;
    for (const std::string_view word : keys) {
      const std::string key(word);
      count += static_cast<int>(*says(key).integer(key, 0, max_layers));
    }
    if (keys.size() == 1) {
      part_.origins().read("layers", says(std::string(keys.front())), keys.front());
    } else {
      std::string sum;
      for (const std::string_view key : keys) sum += (sum.empty() ? "" : " + ") + std::string(key);
      part_.derived("layers", sum);
    }
    model_.layers.resize(static_cast<std::size_t>(count));
    std::iota(model_.layers.begin(), model_.layers.end(), 0);
  }

  bool turns() const {
    const Flag& flag = row_.turns_where;
    if (flag.key.empty() || part_.keys.boolean(flag.key).value_or(flag.default_value) == flag.on) return true;
    part_.reading.note_no_rope(part_.path,
                               std::string(flag.key) + " is " + (flag.on ? "false" : "true") + ", and nothing turns");
    return false;
  }

  Pairing pairing() const {
    part_.by_default("pairing");
    if (row_.pairing_key.empty()) return row_.pairing;
    const std::string key(row_.pairing_key);
    const Object& from = says(key);
    const std::string word = *from.text(key);
    part_.origins().read("pairing", from, key);
    if (word != "split" && word != "interleaved") from.refuse(key, "must be split or interleaved");
    return word == "split" ? Pairing::half : Pairing::interleaved;
  }

  // Whether the whole head is one run, and no key lists widths of axes.
  bool is_one_run() const {
    return row_.laid == Laid::interleaved || row_.laid == Laid::across_heads || row_.laid == Laid::learned;
  }

  // head_dim, heads and the widths, which may follow from one another.
  void read_heads() {
    Rope& rope = model_.rope;
    if (!row_.heads.empty()) model_.heads = whole("heads", row_.heads, max_heads);
    const std::string hidden = choose_key(row_.hidden);
    if (row_.heads.empty()) {
      read_widths();
      rope.head_dim = width();
      const std::string widths = choose_key(row_.widths);
      if (rope.head_dim == 0) says(widths).refuse(widths, "must sum to the elements of a head");
      part_.derived("head_dim", "the sum of " + widths);
      model_.heads = whole(nullptr, hidden, max_width) / rope.head_dim;
      part_.derived("heads", hidden + " / head_dim");
    } else {
      if (hidden.empty()) {
        rope.head_dim = whole("head_dim", row_.head_dim, max_head_dim);
      } else {
        rope.head_dim = whole(nullptr, hidden, max_width) / model_.heads;
        part_.derived("head_dim", hidden + " / " + std::string(row_.heads));
      }
      read_widths();
    }
    if (const int all = model_.heads * rope.head_dim; all < 1 || all > max_width) {
      const std::string key = hidden.empty() ? std::string(row_.head_dim) : hidden;
      says(key).refuse(key, "must give heads that have 1 to ", max_width, " elements together");
    }
    model_.kv_heads = model_.heads;
    part_.origins().same("kv_heads", "heads");
    const bool own = part_.keys.has(row_.kv_heads) || defaults_.has(row_.kv_heads);
    if (!row_.kv_heads.empty() && own) model_.kv_heads = whole("kv_heads", row_.kv_heads, max_heads);
    part_.keys.mark(row_.kv_heads);
  }

  int width() const { return std::accumulate(widths_.begin(), widths_.end(), 0); }

  void read_widths() {
    const std::string key = choose_key(row_.widths);
    const std::size_t axes = std::max<std::size_t>(axes_.size(), 1);
    if (is_one_run()) {
      widths_ = {model_.rope.head_dim};
    } else if (key.empty() || (row_.split != Split::none && part_.keys.is_null(key))) {
      part_.keys.mark(key);
      if (row_.split == Split::thirds && model_.rope.head_dim / 3 % 2 != 0)
        says(std::string(row_.head_dim))
            .refuse(row_.head_dim,
                    "must have an even third, rounded down (else the class takes a pair's cosine from one axis and "
                    "its sine from another, which is no rotation)");
      widths_ = split_head(row_.split, model_.rope.head_dim, static_cast<int>(axes));
      part_.by_default("axis");
    } else {
      const Object& from = says(key);
      const Json& value = *from.value(key);
      if (value.is_array()) {
        widths_ = *from.integers(key);
      } else {
        widths_.assign(axes, static_cast<int>(*from.integer(key, 1, max_head_dim)));
      }
      for (int& width : widths_) {
        if (width < 0 || width > max_head_dim || width * row_.width_unit % 2 != 0) {
          from.refuse(key, "must hold an even number of elements for each axis");
        }
        width *= row_.width_unit;
      }
      if (widths_.empty() || widths_.size() > 16) from.refuse(key, "must have 1 to 16 axes");
      if (widths_.size() != axes_.size()) model_.axis_names.clear();  // the names are the class's axes'
      part_.origins().read("axis", from, key);
      if (row_.laid == Laid::joined) widths_ = {width()};
    }
    check_widths();
  }

  void check_widths() const {
    const int sum = width();
    const int head_dim = model_.rope.head_dim;
    if (head_dim == 0) return;  // head_dim is the sum of the widths
    const bool fits = sum == head_dim || (row_.fill == Fill::any && sum > 0 && sum < head_dim) ||
                      (row_.fill == Fill::whole_or_half && 2 * sum == head_dim);
    const bool odd = std::any_of(widths_.begin(), widths_.end(), [](int width) { return width % 2 != 0; });
    if (fits && !odd) return;
    std::string listed;
    for (const int width : widths_) listed += (listed.empty() ? "" : " + ") + std::to_string(width);
    fail(Code::CONFIG_VALUE, "read_config", "the widths of the axes of ", part_.name(), " must be even and make ",
         row_.fill == Fill::any             ? "all or some of "
         : row_.fill == Fill::whole_or_half ? "all or half of "
                                            : "",
         "the ", head_dim, " elements of a head but got ", listed);
  }

  void read_base() {
    Rope& rope = model_.rope;
    rope.base = row_.base;
    part_.by_default("base");
    if (row_.base_key.empty()) return;
    const std::string key(row_.base_key);
    const Object& from = says(key);
    rope.base = *from.number(key);
    part_.origins().read("base", from, key);
    if (!(rope.base > 1) || !std::isfinite(rope.base)) from.refuse(key, "must be above 1");
  }

  // Returns the context. OmniGen's "su": attention_factor follows from the ratio of max_position_embeddings to its
  // trained length.
  std::int64_t read_longrope() {
    const std::string key(row_.longrope);
    const auto object = part_.keys.object(key);
    if (!object) missing(part_, "the factors of its pairs", key);
    for (const char* word : {"type", "rope_type"}) object->mark(word);
    LongRope scaling;
    const auto factors = [&](const char* word) {
      const auto list = object->numbers(word);
      if (!list || 2 * list->size() != static_cast<std::size_t>(width())) {
        object->refuse(word, "must have one factor for each of the ", width() / 2, " pairs");
      }
      part_.origins().read(std::string("scaling.") + word, *object, word);
      return *list;
    };
    scaling.short_factor = factors("short_factor");
    scaling.long_factor = factors("long_factor");
    const auto length = [&](const char* value, const char* word) {
      const Object& from = says(word);
      part_.origins().read(value, from, word);
      return *from.length(word, max_length);
    };
    scaling.trained_length = length("scaling.trained_length", "original_max_position_embeddings");
    const std::int64_t context = length("context", "max_position_embeddings");
    scaling.factor = std::max(1.0, static_cast<double>(context) / static_cast<double>(scaling.trained_length));
    part_.derived("scaling.factor", "max_position_embeddings / original_max_position_embeddings");
    part_.record("scaling", key);
    model_.rope.scaling = scaling;
    return context;
  }

  // One value for each axis, from a list or from a key for each axis; 1 without a key.
  std::vector<double> by_axis(const std::vector<std::string_view>& keys) const {
    std::vector<double> values(widths_.size(), 1);
    for (std::size_t k = 0; k < keys.size() && !keys[k].empty(); ++k) {
      const std::string key(keys[k]);
      const Object& from = says(key);
      if (keys.size() > 1 || widths_.size() == 1) {
        values.at(k) = *from.number(key);
      } else {
        values = *from.numbers(key);
        if (values.size() != widths_.size()) from.refuse(key, "must have one number for each axis");
      }
      for (const double value : values) {
        if (!(value > 0) || !std::isfinite(value)) from.refuse(key, "must be above 0");
      }
    }
    return values;
  }

  std::vector<Axis> axes() const {
    const std::vector<double> stretch = by_axis(row_.stretch), ntk = by_axis({row_.ntk});
    std::vector<Axis> axes;
    for (std::size_t a = 0; a < widths_.size(); ++a) {
      const int width = widths_[a];
      double base = model_.rope.base;
      if (ntk[a] != 1 && width > 2) base *= std::pow(ntk[a], static_cast<double>(width) / (width - 2));
      axes.push_back({.width = width, .base = base, .stretch = stretch[a]});
    }
    return axes;
  }

  // Sets the rope of these axes, whose other facts are known.
  void take(const std::vector<Axis>& axes) {
    Rope& rope = model_.rope;
    const Rope by_axes = axial(rope.head_dim, axes, rope.pairing);
    rope.rotary_dim = by_axes.rotary_dim;
    rope.axis = by_axes.axis;
    rope.inv_freq = by_axes.inv_freq;
    const std::string base = row_.base_key.empty() ? spelled(rope.base) : std::string(row_.base_key);
    std::string formula = base + "^(-2i / width) of each axis";
    if (!row_.ntk.empty())
      formula = base + ", times " + std::string(row_.ntk) + "^(width / (width - 2)), to the -2i / width";
    std::string divisors;
    for (const std::string_view key : row_.stretch) divisors += (divisors.empty() ? "" : " ") + std::string(key);
    if (!divisors.empty()) formula += ", divided by " + divisors;
    part_.derived("inv_freq", formula);
  }

  void lay_out() {
    Rope& rope = model_.rope;
    rope.rotary_dim = width();
    const bool listed = !row_.widths.empty() && !is_one_run();
    part_.derived("rotary_dim", listed                      ? "the sum of " + choose_key(row_.widths)
                                : row_.split == Split::half ? "head_dim / 2"
                                                            : "head_dim");
    if (row_.laid == Laid::interleaved) {
      rope.axis = interleaved_by(sections(), rope.rotary_dim / 2);
    } else if (row_.laid == Laid::across_heads) {
      const int axes = std::max(1, static_cast<int>(axes_.size()));
      lay_across_heads(rope, model_.heads, axes);
      part_.derived("inv_freq", "pi / 2 * base^(k / (n - 1)), n = heads * pairs / axes, over the pairs of all heads");
      part_.note(NoteKind::axes,
                 "each head has frequencies of its own; a coordinate x of [0, 1] is the position 2 x - 1");
    } else if (row_.laid == Laid::learned) {
      model_.rope.summed_axes = static_cast<int>(axes_.size());
      start_learned(part_, {Learns::directions, row_.widths.front()}, model_);
    } else if (widths_.size() > 1) {
      take(axes());
    }
    if (const double pace = by_axis({row_.pace})[0]; pace != 1) {
      rope.multiplier.assign(static_cast<std::size_t>(width()) / 2, pace);
      part_.origins().read("multiplier", part_.keys, row_.pace);
    }
    if (row_.laid == Laid::by_turns) take_turns(rope, static_cast<int>(widths_.size()));
  }

  // The sections of M-RoPE: the row's key, else the mrope_section of rope_scaling.
  std::vector<int> sections() const {
    const std::string key(row_.widths.front());
    part_.keys.mark(key);
    const auto scaling = part_.keys.object("rope_scaling");
    const bool old = scaling && !part_.keys.has(key) && scaling->has("mrope_section");
    if (part_.keys.has("rope_scaling")) ignore_known(part_.keys, "rope_scaling");
    const Object& from = old ? *scaling : says(key);
    const std::string word = old ? "mrope_section" : key;
    const std::vector<int> sections = *from.integers(word);
    part_.origins().read("axis", from, word);
    const auto wrong = [](int section) { return section < 0 || section > max_head_dim; };
    if (sections.size() != 3 || std::any_of(sections.begin(), sections.end(), wrong)) {
      from.refuse(word, "must have three counts of pairs");
    }
    return sections;
  }

  void add_blocks() {
    const std::vector<Axis> all = axes();
    int first = 0;
    for (std::size_t a = 0; a < all.size(); ++a) {
      if (all[a].width == 0) continue;
      std::vector<Axis> one(all.size(), Axis{});
      one[a] = all[a];
      take(one);
      part_.derived("rotary_dim", "head_dim / " + std::to_string(all.size()));
      part_.derived("first", std::to_string(a) + " * rotary_dim");
      model_.first = first;
      first += all[a].width;
      add(model_);
    }
  }

  void add(ModelRope model) const {
    if (row_.longrope.empty()) part_.by_default("scaling");
    const char* scaling = name(model.rope.scaling);
    part_.derived("attention_factor", row_.longrope.empty()
                                          ? std::string("1 for ") + scaling
                                          : std::string("sqrt(1 + ln(factor) / ln(trained_length)) for ") + scaling);
    model.origins = part_.origins().of_rope();
    part_.reading.model.ropes.push_back(std::move(model));
  }

  static constexpr int max_width = max_head_dim * 64;

  const Part& part_;
  const DiffusersRope& row_;
  Object defaults_;
  std::vector<std::string_view> axes_;
  std::vector<int> widths_;
  ModelRope model_;
};

}  // namespace

bool is_diffusers(const Object& root) {
  return root.has("_class_name") || (root.has("_diffusers_version") && !root.has("model_type"));
}

bool is_class_of_diffusers(std::string_view name) { return find_diffusers(name) != nullptr; }

void read_diffusers(Reading& reading, const Object& root, const std::string& type) {
  reading.model.model_type = type;
  if (const std::string_view why = refusal(type); !why.empty()) {
    fail(Code::ROPE, "read_config", "a rope must be a rotation of q and k but ", type, ' ', why);
  }
  if (known_without_rope(type)) {
    reading.note(NoteKind::no_rope, "", "_class_name " + in_quotes(type) + " has no rotary positions of its own");
    return;
  }
  for (const DiffusersRope* row : ropes_of_class(type)) {
    const Family family = {.type = type};
    const Part part{reading, part_of_class(*row), root, family};
    DiffusersReader(part, *row).read();
    ++reading.parts;
  }
  if (reading.parts != 0) return;
  if (type.ends_with("Pipeline")) {
    fail(Code::MODEL_TYPE, "read_config", "a config must be a model's but this one is of the whole ", type,
         ": give the config.json in its folder transformer or unet");
  }
  fail(Code::MODEL_TYPE, "read_config", "a config of diffusers must have a _class_name that is known but this one has ",
       type.empty() ? "none" : in_quotes(type), suggestion(type, diffusers_types()));
}

}  // namespace rotary::files
