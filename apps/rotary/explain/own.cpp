#include "own.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

#include "apps/rotary/config_place.h"
#include "apps/shared/text.h"
#include "extend/extend.h"
#include "numbers.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

constexpr std::int64_t usual_length = 4096;
constexpr std::int64_t longest = 1000000000000000;  // so that the arithmetic holds

std::string wavelength_text(double inv_freq) {
  return inv_freq == 0 ? "still" : fixed(two_pi / std::fabs(inv_freq), 2);
}

// At most nine pairs from the first to the last.
std::vector<std::size_t> shown_pairs(std::size_t count) {
  std::set<std::size_t> chosen;
  for (std::size_t k = 0; k <= 8; ++k) chosen.insert(k * (count - 1) / 8);
  return {chosen.begin(), chosen.end()};
}

// The slowest pair that turns; 0 if none does.
std::size_t slowest(const Frequencies& speeds) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < speeds.inv_freq.size(); ++i) {
    const double speed = std::fabs(speeds.inv_freq[i]), least = std::fabs(speeds.inv_freq[found]);
    if (speed > 0 && (least == 0 || speed < least)) found = i;
  }
  return found;
}

std::size_t fastest(const Frequencies& speeds) {
  const auto slower = [](double a, double b) { return std::fabs(a) < std::fabs(b); };
  const auto at = std::max_element(speeds.inv_freq.begin(), speeds.inv_freq.end(), slower);
  return static_cast<std::size_t>(at - speeds.inv_freq.begin());
}

std::string pair_word(std::size_t i) { return "pair " + std::to_string(i); }

// ---- chapter 8 ----

void say_hands(Page& page, const Own& own) {
  const std::vector<double>& speeds = own.scaled.inv_freq;
  const std::size_t first = fastest(own.scaled), last = slowest(own.scaled);
  page.say("{} in a head of {} elements. The fastest, {}, goes round in {} tokens, the slowest, {}, in {}.",
           {counted(speeds.size(), "pair"), std::to_string(own.view.used->rope.head_dim), pair_word(first),
            wavelength_text(speeds[first]), pair_word(last), wavelength_text(speeds[last])});
  const bool several = own.view.axes > 1;
  const std::string tokens = std::to_string(own.length);
  std::vector<Cells> rows;
  for (const std::size_t i : shown_pairs(speeds.size())) {
    Cells row{std::to_string(i)};
    if (several) row.push_back(own.view.axis_names.at(static_cast<std::size_t>(own.view.pairs[i].axis)));
    row.insert(row.end(), {fixed(speeds[i], 9), wavelength_text(speeds[i]),
                           fixed(static_cast<double>(own.length) * speeds[i] / two_pi, 3)});
    rows.push_back(std::move(row));
  }
  Cells header{"pair"};
  if (several) header.emplace_back("axis");
  header.insert(header.end(), {"inv_freq", "wavelength", "turns in " + tokens + " tokens"});
  page.table(std::move(header), std::move(rows));
  std::size_t round = 0, still = 0;
  for (const double speed : speeds) {
    round += static_cast<double>(own.length) * std::fabs(speed) >= two_pi ? 1 : 0;
    still += speed == 0 ? 1 : 0;
  }
  const std::size_t short_of = speeds.size() - round - still;
  std::string text = (own.is_known_length ? "In " : "The config does not say the context. In ") + tokens + " tokens " +
                     counted(round, "pair") + " go round and begin again";
  if (short_of > 0) text += "; " + std::to_string(short_of) + " do not, and no two positions look alike to them";
  if (still > 0) text += "; " + std::to_string(still) + " do not turn at all";
  page.say("{}.", {text});
}

void say_together(Page& page, const Own& own) {
  page.heading("Fast, slow, and all together");
  const std::size_t first = fastest(own.scaled), last = slowest(own.scaled);
  page.say("The cosine of the fastest pair, of the slowest, and the mean of all, by distance{}:",
           {own.view.axes > 1 ? ", the same on every axis" : ""});
  std::vector<Cells> rows;
  std::set<std::int64_t> distances{0, 1, 2, own.length - 1};
  for (std::int64_t distance = 10; distance < own.length; distance *= 10) distances.insert(distance);
  for (const std::int64_t distance : distances) {
    const auto d = static_cast<double>(distance);
    rows.push_back({std::to_string(distance), fixed(std::cos(d * own.scaled.inv_freq[first]), 6),
                    fixed(std::cos(d * own.scaled.inv_freq[last]), 6), fixed(mean_cosine(own.scaled, d), 6)});
  }
  page.table({"distance", pair_word(first), pair_word(last), "mean of all"}, std::move(rows));
  Line mean{.name = "mean of all pairs", .points = {}, .dots = true};
  const double decades = std::log10(static_cast<double>(std::max<std::int64_t>(own.length, 10)));
  for (int i = 0; i <= 60; ++i) {
    const double distance = std::pow(10.0, i / 60.0 * decades);
    mean.points.emplace_back(distance, 100 * mean_cosine(own.scaled, distance));
  }
  const Line zero{.name = "", .points = {{1, 0}, {std::pow(10.0, decades), 0}}, .guide = true};
  page.show(terminal_plot(
      {.title = "", .x_label = "distance", .y_label = "cosine, percent", .log_x = true, .lines = {mean, zero}}, 66,
      11));
}

void say_bases(Page& page, const Own& own) {
  Rope rope = own.view.used->rope;
  if (!rope.inv_freq.empty()) return;
  page.heading("The base");
  rope.scaling = Unscaled{};
  std::vector<Cells> rows;
  std::set<double> bases{10000, 500000, 1000000, 5000000, rope.base};
  const double mine = rope.base;
  const std::size_t last = slowest(own.plain);
  for (const double base : bases) {
    rope.base = base;
    rows.push_back(
        {detail::spelled(base), wavelength_text(frequencies(rope).inv_freq[last]), base == mine ? "this model" : ""});
  }
  page.say("Without scaling, the wavelength of {} with its base and with others:", {pair_word(last)});
  page.table({"base", "wavelength", ""}, std::move(rows));
}

// ---- chapter 11 ----

struct Method {
  std::string name;
  Frequencies speeds;
};

Frequencies scaled_by(const Own& own, const Scaling& scaling) {
  Rope rope = own.view.used->rope;
  rope.scaling = scaling;
  return frequencies(rope, 0);
}

std::vector<Method> others(const Own& own, double factor) {
  const int r = own.view.used->rope.exponent_dim > 0 ? own.view.used->rope.exponent_dim
                                                     : static_cast<int>(2 * own.plain.inv_freq.size());
  std::vector<Method> methods = {{"linear", scaled_by(own, Linear{factor})}};
  if (r > 2) methods.push_back({"NTK", scaled_by(own, Ntk{factor})});
  return methods;
}

std::string stretch_text(const Own& own, const Frequencies& speeds, std::size_t i) {
  return speeds.inv_freq[i] == 0 ? "still" : fixed(own.plain.inv_freq[i] / speeds.inv_freq[i], 4);
}

void say_stretches(Page& page, const Own& own, const std::vector<Method>& methods, std::int64_t trained) {
  std::vector<Cells> rows;
  for (const std::size_t i : shown_pairs(own.plain.inv_freq.size())) {
    const double speed = own.plain.inv_freq[i];
    Cells row{std::to_string(i), wavelength_text(speed), fixed(static_cast<double>(trained) * speed / two_pi, 3)};
    for (const Method& method : methods) row.push_back(stretch_text(own, method.speeds, i));
    rows.push_back(std::move(row));
  }
  Cells header{"pair", "wavelength", "turns in " + std::to_string(trained)};
  for (const Method& method : methods) header.push_back(method.name);
  page.table(std::move(header), std::move(rows));
  Plot plot{.title = "", .x_label = "pair", .y_label = "stretch", .lines = {}};
  const auto count = static_cast<int>(own.plain.inv_freq.size());
  for (const Method& method : methods) {
    plot.lines.push_back(curve(method.name, count, [&](int pair) {
      const auto i = static_cast<std::size_t>(pair);
      return method.speeds.inv_freq[i] == 0 ? std::nan("") : own.plain.inv_freq[i] / method.speeds.inv_freq[i];
    }));
  }
  page.show(terminal_plot(plot, 67, 13));
}

void say_bargain(Page& page, const Own& own, const std::vector<Method>& methods, std::int64_t trained,
                 std::int64_t wanted) {
  page.heading("The bargain");
  const std::size_t last = slowest(own.scaled), first = fastest(own.plain);
  const double met = static_cast<double>(trained - 1) * own.plain.inv_freq[last];
  page.say(R"(The largest angle that {} met in training is {}. Where does it stand at the end of {} tokens, and how far
      apart do two neighbours stand on {}?)",
           {pair_word(last), fixed(met, 6), std::to_string(wanted), pair_word(first)});
  std::vector<Cells> rows;
  const auto add = [&](const std::string& name, const Frequencies& speeds) {
    rows.push_back(
        {name, fixed(static_cast<double>(wanted - 1) * speeds.inv_freq[last], 6), fixed(speeds.inv_freq[first], 4)});
  };
  add("no scaling", own.plain);
  for (const Method& method : methods) add(method.name, method.speeds);
  page.table({"method", "angle of " + pair_word(last) + " at " + std::to_string(wanted - 1), "between neighbours"},
             std::move(rows));
}

// "0-28 kept; 29-34 blended; 35-63 stretched"
std::string effects_text(const Own& own) {
  std::vector<std::pair<std::string_view, std::vector<int>>> groups;
  for (std::size_t i = 0; i < own.view.pairs.size(); ++i) {
    const std::string_view effect = own.view.pairs[i].effect;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& one) { return one.first == effect; });
    if (group == groups.end()) group = groups.insert(groups.end(), {effect, {}});
    group->second.push_back(static_cast<int>(i));
  }
  std::string text;
  for (const auto& [effect, pairs] : groups) {
    text.append(text.empty() ? "" : "; ").append(ranges(pairs)).append(" ").append(effect);
  }
  return text;
}

void say_unscaled(Page& page, const Own& own) {
  const std::int64_t trained = own.published_length.value_or(own.length), wanted = 4 * trained;
  const std::string made = own.published_length  ? "By " + own.publisher + " the model was trained on"
                           : own.is_known_length ? "The model was made for"
                                                 : "The config does not say the context; take";
  page.say(R"(This rope is not scaled. {} {} tokens; beyond them the slow pairs come to angles that training never
      showed. What the usual scalings would do to it for four times as many, {}, as a factor of the wavelength:)",
           {made, std::to_string(trained), std::to_string(wanted)});
  std::vector<Method> methods = others(own, 4);
  methods.push_back({"YaRN", scaled_by(own, Yarn{4, trained})});
  methods.push_back({"llama3", scaled_by(own, Llama3{4, trained})});
  say_stretches(page, own, methods, trained);
  say_bargain(page, own, methods, trained, wanted);
  page.say(R"(YaRN would also multiply cos and sin by {}. `--scaling yarn --factor 4` shows any of them as if the config
      had it.)",
           {fixed(methods[methods.size() - 2].speeds.attention_factor, 6)});
}

void say_scaled(Page& page, const Own& own) {
  const ModelRope& used = *own.view.used;
  const char* const method = name(used.rope.scaling);
  const std::string reach = reach_text(used), lengths = which_lengths(own.view.lengths);
  std::int64_t trained = trained_length(used.rope.scaling);
  if (trained == 0) trained = own.published_length.value_or(own.length);
  page.say("This rope is scaled by {}{}.{}",
           {method, reach.empty() ? "" : " (" + reach + ")",
            lengths.empty() ? ""
                            : " Its frequencies depend on the length; here are those of " + std::to_string(own.length) +
                                  " tokens (" + lengths + ")."});
  page.say("Pairs {}.", {effects_text(own)});
  const double a = own.scaled.attention_factor;
  if (a != 1) {
    page.say("cos and sin are multiplied by {}, so that a score grows by a factor of {}.",
             {fixed(a, 6), fixed(a * a, 6)});
  }
  std::vector<Method> methods = {{method, own.scaled}};
  const auto* factor = scalings::value_of<double>(used.rope.scaling, "factor");
  const auto is = [method](std::string_view word) { return word == method; };
  if (factor != nullptr && *factor > 1 && !is("linear") && !is("ntk") && !is("dynamic")) {
    for (Method& other : others(own, *factor)) methods.push_back(std::move(other));
  }
  page.say("What it does to the wavelengths, as a factor; 1 is untouched{}:",
           {methods.size() == 1 ? "" : ". Beside it linear and NTK with the same factor, " + detail::spelled(*factor)});
  say_stretches(page, own, methods, trained);
  const std::int64_t wanted = std::max({reach_of(used), own.length, trained});
  say_bargain(page, own, methods, trained, wanted);
}

// Of a rope that depends on it: the whole context; of dynamic, which has none beyond its trained length, four times
// that.
std::int64_t length_of(const ModelRope& used) {
  const std::int64_t trained = std::min(trained_length(used.rope.scaling), longest);
  return std::max(used.context, std::holds_alternative<Dynamic>(used.rope.scaling) ? 4 * trained : trained + 1);
}

// A model without a rope is refused by chosen_rope, in words of its own.
extend::Start start_of(const Source& source, const Model& model) {
  if (model.ropes.empty() || source.config.empty()) return {};
  extend::Request request;
  request.model = model;
  request.config = config_text_at(source.config);
  if (source.rope) request.rope = static_cast<std::size_t>(*source.rope);
  const bool is_there = !request.rope || *request.rope < model.ropes.size();
  return is_there ? extend::start_of(request) : extend::Start{};
}

}  // namespace

Own own_rope(Source source, const Model& model) {
  const extend::Start start = start_of(source, model);
  const bool is_extended = !source.rope || static_cast<std::size_t>(*source.rope) == start.rope;
  if (!source.rope) source.rope = static_cast<int>(start.rope);
  const ModelRope& used = chosen_rope(model, source);
  Own own;
  if (is_extended) {
    own.published_length = start.published_length;
    own.publisher = start.publisher;
  }
  own.name = source.config;
  std::optional<std::int64_t> length = source.length;
  if (!length && depends_on_length(used.rope.scaling)) length = length_of(used);
  own.scaled = frequencies_of(source, used.rope, length.value_or(0));
  own.view = view_rope(used, length);
  own.described = describe(model, used, own.scaled);
  Rope plain = used.rope;
  plain.scaling = Unscaled{};
  own.plain = frequencies(plain);
  own.is_known_length = own.view.turns_over > 1;
  own.length = own.is_known_length ? std::min(own.view.turns_over, longest) : usual_length;
  return own;
}

Page explain_own_frequencies(const Own& own) {
  Page page;
  page.say("{}.", {own.described});
  say_hands(page, own);
  say_together(page, own);
  say_bases(page, own);
  return page;
}

Page explain_own_scaling(const Own& own) {
  Page page;
  page.say("{}.", {own.described});
  if (std::holds_alternative<Unscaled>(own.view.used->rope.scaling)) {
    say_unscaled(page, own);
  } else {
    say_scaled(page, own);
  }
  page.say(
      "Chapter 11 tells what the methods are: `rotary explain scaling`. Every value and where it comes from: `rotary "
      "inspect`.");
  return page;
}

}  // namespace rotary::cli
