// Chapters 8 and 11 for the rope of a model that the reader names.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <vector>

#include "apps/rotary/inspect/shown.h"
#include "apps/shared/text.h"
#include "page.h"
#include "rotary/extend.h"
#include "tools/config_place.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

constexpr double two_pi = 2 * std::numbers::pi;
constexpr std::int64_t longest = 1000000000000000;  // so that the arithmetic holds

using Rows = std::vector<std::vector<std::string>>;

struct Own {
  std::string described;
  RopeView view;
  Frequencies plain;
  std::int64_t length = 4096;  // the tokens over which turns are counted
  bool is_known_length = false;
  extend::Start start;                   // what the makers publish, of the rope that is extended
  std::size_t fastest = 0, slowest = 0;  // of the scaled pairs that turn

  std::int64_t trained() const { return start.publisher.empty() ? length : start.trained_length; }
};

// Columns of numbers are aligned to the right; the first row is the header.
std::string markdown_table(const Rows& rows) {
  std::string text, rule = "|";
  for (const auto& row : rows) {
    text += "|";
    for (const std::string& cell : row) text += " " + cell + " |";
    text += "\n";
    if (&row != &rows.front()) continue;
    for (const std::string& title : row) rule += title == "method" || title == "axis" ? "---|" : "---:|";
    text += rule + "\n";
  }
  return text;
}

std::string paragraph(const std::string& text) { return wrapped(text, 0, 80) + "\n\n"; }
std::string pair_word(std::size_t i) { return "pair " + std::to_string(i); }

std::string wavelength_text(double inv_freq) {
  return inv_freq == 0 ? "still" : fixed(two_pi / std::fabs(inv_freq), 2);
}

std::string turns_text(double inv_freq, std::int64_t tokens) {
  return fixed(static_cast<double>(tokens) * inv_freq / two_pi, 3);
}

// At most nine pairs from the first to the last.
std::set<std::size_t> shown_pairs(std::size_t count) {
  std::set<std::size_t> chosen;
  for (std::size_t k = 0; k <= 8; ++k) chosen.insert(k * (count - 1) / 8);
  return chosen;
}

// ---- chapter 8 ----

std::string hands(const Own& own) {
  const std::vector<double>& speeds = own.view.frequencies.inv_freq;
  const std::string tokens = std::to_string(own.length);
  std::string text = paragraph(
      counted(speeds.size(), "pair") + " in a head of " + std::to_string(own.view.used->rope.head_dim) +
      " elements. The fastest, " + pair_word(own.fastest) + ", goes round in " + wavelength_text(speeds[own.fastest]) +
      " tokens, the slowest, " + pair_word(own.slowest) + ", in " + wavelength_text(speeds[own.slowest]) + ".");
  Rows rows = {{"pair", "axis", "inv_freq", "wavelength", "turns in " + tokens + " tokens"}};
  for (const std::size_t i : shown_pairs(speeds.size()))
    rows.push_back({std::to_string(i), own.view.axis_names.at(static_cast<std::size_t>(own.view.pairs[i].axis)),
                    fixed(speeds[i], 9), wavelength_text(speeds[i]), turns_text(speeds[i], own.length)});
  for (auto& row : rows)
    if (own.view.axis_names.size() == 1) row.erase(row.begin() + 1);
  text += markdown_table(rows) + "\n";
  std::size_t round = 0, still = 0;
  for (const double speed : speeds) {
    round += static_cast<double>(own.length) * std::fabs(speed) >= two_pi ? 1 : 0;
    still += speed == 0 ? 1 : 0;
  }
  const std::size_t rest = speeds.size() - round - still;
  return text +
         paragraph((own.is_known_length ? "" : "The config does not say the context. ") + std::string("In ") + tokens +
                   " tokens " + counted(round, "pair") + " go round and begin again" +
                   (rest > 0 ? "; " + std::to_string(rest) + " do not, and no two positions look alike to them" : "") +
                   (still > 0 ? "; " + std::to_string(still) + " do not turn at all" : "") + ".");
}

// ---- chapter 11 ----

struct Method {
  std::string name;
  Frequencies speeds;
};

Method scaled_by(const Own& own, const std::string& name, const Scaling& scaling) {
  Rope rope = own.view.used->rope;
  rope.scaling = scaling;
  return {name, frequencies(rope, 0)};
}

void add_simple_methods(std::vector<Method>& methods, const Own& own, double factor) {
  methods.push_back(scaled_by(own, "linear", Linear{factor}));
  const int exponent_dim = own.view.used->rope.exponent_dim;
  if ((exponent_dim > 0 ? exponent_dim : static_cast<int>(2 * own.plain.inv_freq.size())) > 2)
    methods.push_back(scaled_by(own, "NTK", Ntk{factor}));
}

std::string stretches(const Own& own, const std::vector<Method>& methods, std::int64_t trained) {
  Rows rows = {{"pair", "wavelength", "turns in " + std::to_string(trained)}};
  for (const Method& method : methods) rows.front().push_back(method.name);
  for (const std::size_t i : shown_pairs(own.plain.inv_freq.size())) {
    const double speed = own.plain.inv_freq[i];
    rows.push_back({std::to_string(i), wavelength_text(speed), turns_text(speed, trained)});
    for (const Method& method : methods) {
      const double scaled = method.speeds.inv_freq[i];
      rows.back().push_back(scaled == 0 ? "still" : fixed(speed / scaled, 4));
    }
  }
  return markdown_table(rows);
}

std::string bargain(const Own& own, const std::vector<Method>& methods, std::int64_t trained, std::int64_t wanted) {
  const std::vector<double>& plain = own.plain.inv_freq;
  const auto first = static_cast<std::size_t>(
      std::max_element(plain.begin(), plain.end(), [](double a, double b) { return std::fabs(a) < std::fabs(b); }) -
      plain.begin());
  const std::string slow = pair_word(own.slowest);
  Rows rows = {{"method", "angle of " + slow + " at " + std::to_string(wanted - 1), "between neighbours"}};
  const auto add = [&](const std::string& name, const Frequencies& speeds) {
    rows.push_back({name, fixed(static_cast<double>(wanted - 1) * speeds.inv_freq[own.slowest], 6),
                    fixed(speeds.inv_freq[first], 4)});
  };
  add("no scaling", own.plain);
  for (const Method& method : methods) add(method.name, method.speeds);
  return "\n## The bargain\n\n" +
         paragraph("The largest angle that " + slow + " met in training is " +
                   fixed(static_cast<double>(trained - 1) * plain[own.slowest], 6) +
                   ". Where does it stand at the end of " + std::to_string(wanted) +
                   " tokens, and how far apart do two neighbours stand on " + pair_word(first) + "?") +
         markdown_table(rows);
}

std::string unscaled(const Own& own) {
  const std::int64_t trained = own.trained(), wanted = 4 * trained;
  const std::string made = !own.start.publisher.empty() ? "By " + own.start.publisher + " the model was trained on"
                           : own.is_known_length        ? "The model was made for"
                                                        : "The config does not say the context; take";
  std::vector<Method> methods;
  add_simple_methods(methods, own, 4);
  methods.push_back(scaled_by(own, "YaRN", Yarn{4, trained}));
  methods.push_back(scaled_by(own, "llama3", Llama3{4, trained}));
  const double yarn_factor = methods[methods.size() - 2].speeds.attention_factor;
  return paragraph("This rope is not scaled. " + made + " " + std::to_string(trained) +
                   " tokens; beyond them the slow pairs come to angles that training never showed. What the usual "
                   "scalings would do to it for four times as many, " +
                   std::to_string(wanted) + ", as a factor of the wavelength:") +
         stretches(own, methods, trained) + bargain(own, methods, trained, wanted) + "\n" +
         paragraph("YaRN would also multiply cos and sin by " + fixed(yarn_factor, 6) +
                   ". `--scaling yarn --factor 4` shows any of them as if the config had it.");
}

// "0-28 kept; 29-34 blended; 35-63 stretched"
std::string effects_text(const RopeView& view) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<int>> pairs;
  for (std::size_t i = 0; i < view.pairs.size(); ++i) {
    std::vector<int>& group = pairs[view.pairs[i].effect];
    if (group.empty()) order.emplace_back(view.pairs[i].effect);
    group.push_back(static_cast<int>(i));
  }
  std::string text;
  for (const std::string& effect : order) text += (text.empty() ? "" : "; ") + ranges(pairs[effect]) + " " + effect;
  return text;
}

std::string scaled(const Own& own) {
  const ModelRope& used = *own.view.used;
  const std::string method = name(used.rope.scaling), reach = reach_text(used),
                    lengths = which_lengths(own.view.lengths);
  const std::int64_t own_length = trained_length(used.rope.scaling),
                     trained = own_length > 0 ? own_length : own.trained();
  std::string says = "This rope is scaled by " + method + (reach.empty() ? "." : " (" + reach + ").");
  if (!lengths.empty())
    says += " Its frequencies depend on the length; here are those of " + std::to_string(own.length) + " tokens (" +
            lengths + ").";
  std::string text = paragraph(says) + paragraph("Pairs " + effects_text(own.view) + ".");
  const double a = own.view.frequencies.attention_factor;
  if (a != 1)
    text += paragraph("cos and sin are multiplied by " + fixed(a, 6) + ", so that a score grows by a factor of " +
                      fixed(a * a, 6) + ".");
  std::vector<Method> methods = {{method, own.view.frequencies}};
  const auto* factor = scalings::value_of<double>(used.rope.scaling, "factor");
  if (factor != nullptr && *factor > 1 && method != "linear" && method != "ntk" && method != "dynamic")
    add_simple_methods(methods, own, *factor);
  std::string beside = "What it does to the wavelengths, as a factor; 1 is untouched";
  if (methods.size() > 1) beside += ". Beside it linear and NTK with the same factor, " + detail::spelled(*factor);
  return text + paragraph(beside + ":") + stretches(own, methods, trained) +
         bargain(own, methods, trained, std::max({reach_of(used), own.length, trained})) + "\n";
}

// ---- the rope ----

Own own_rope(Source source, const Model& model) {
  Own own;
  own.start = start_of(source, model);
  if (!source.names_rope()) source.rope = static_cast<int>(own.start.rope);
  const ModelRope& used = chosen_rope(model, source);
  if (&used != &model.ropes[own.start.rope]) own.start.publisher.clear();
  std::optional<std::int64_t> length = source.length;
  if (!length && depends_on_length(used.rope.scaling)) {  // the whole context; of dynamic four times the trained length
    const std::int64_t trained = std::min(trained_length(used.rope.scaling), longest);
    length = std::max(used.context, std::holds_alternative<Dynamic>(used.rope.scaling) ? 4 * trained : trained + 1);
  }
  own.described = describe(model, used, frequencies_of(source, used.rope, length.value_or(0)));
  own.view = view_rope(used, length);
  Rope plain = used.rope;
  plain.scaling = Unscaled{};
  own.plain = frequencies(plain);
  own.is_known_length = own.view.turns_over > 1;
  if (own.is_known_length) own.length = std::min(own.view.turns_over, longest);
  for (std::size_t i = 0; i < own.view.frequencies.inv_freq.size(); ++i) {
    const auto speed = [&own](std::size_t pair) { return std::fabs(own.view.frequencies.inv_freq[pair]); };
    if (speed(i) > speed(own.fastest)) own.fastest = i;
    if (speed(i) > 0 && (speed(own.slowest) == 0 || speed(i) < speed(own.slowest))) own.slowest = i;
  }
  return own;
}

}  // namespace

OwnChapters explain_own(const Source& source) {
  const Model model = read_model(source, source.head_dim.value_or(0));
  const Own own = own_rope(source, model);
  if (own.view.pairs.empty())  // the chapters' numbers are of one angle for each pair
    fail(Code::ROPE, "explain",
         "a rope to explain must have one speed for each pair, but this one has rows per head or sums of axes ('rotary "
         "inspect' and 'rotary plot' show it)");
  const std::string begin = paragraph(own.described + ".");
  const bool plain = std::holds_alternative<Unscaled>(own.view.used->rope.scaling);
  return {begin + hands(own),
          begin + (plain ? unscaled(own) : scaled(own)) +
              paragraph("Chapter 11 tells what the methods are: `rotary explain scaling`. Every value and where it "
                        "comes from: `rotary inspect`.")};
}

}  // namespace rotary::cli
