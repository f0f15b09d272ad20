// The summary of one rope, a row for each value with its origin; and the table of its pairs.
#include <algorithm>
#include <iostream>
#include <string_view>
#include <type_traits>
#include <utility>

#include "shared/columns.h"
#include "shared/terminal.h"
#include "shared/text.h"
#include "shown.h"
#include "values/names.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

constexpr std::size_t widest_value = 26;  // the origin of a longer one is printed below it

// "0-3, 5"; if that is too wide, the first and the last runs and the count: "0-3, 5, ..., 60-61 (52)".
std::string short_ranges(const std::vector<int>& rising, std::size_t width) {
  std::string whole = ranges(rising);
  if (whole.size() <= width) return whole;
  const std::string last = whole.substr(whole.rfind(", ") + 2) + " (" + std::to_string(rising.size()) + ")";
  const std::string gap = ", ..., ";
  const std::size_t room = width > last.size() + gap.size() ? width - last.size() - gap.size() : 0;
  const auto end = whole.rfind(", ", room);
  return end == std::string::npos ? std::to_string(rising.size()) + " of them" : whole.substr(0, end) + gap + last;
}

// The count, the least and the greatest.
std::string list_text(const std::vector<double>& list) {
  const auto [least, most] = std::minmax_element(list.begin(), list.end());
  if (least == list.end()) return "none";
  return std::to_string(list.size()) + " numbers, " + significant(*least, 6) + " to " + significant(*most, 6);
}

// The pairs with one effect.
struct Group {
  const char* effect;
  std::vector<int> pairs;
  double least, most;  // stretch
};

std::vector<Group> groups_of(const RopeView& view) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < view.pairs.size(); ++i) {
    const PairView& pair = view.pairs[i];
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& g) { return std::string_view(g.effect) == pair.effect; });
    if (group == groups.end()) group = groups.insert(group, {pair.effect, {}, pair.stretch, pair.stretch});
    group->pairs.push_back(static_cast<int>(i));
    group->least = std::min(group->least, pair.stretch);
    group->most = std::max(group->most, pair.stretch);
  }
  return groups;
}

// "8", "1.2 to 8"
std::string stretch_text(const Group& group) {
  const std::string least = significant(group.least, 4), most = significant(group.most, 4);
  return least == most ? least : least + " to " + most;
}

// "0-28 kept", "35-63 stretched x 8"; "22 blended" if they are scattered.
std::string group_text(const Group& group) {
  constexpr std::size_t longest = 20;
  std::string text = ranges(group.pairs);
  if (text.size() > longest) text = std::to_string(group.pairs.size());
  text += ' ' + std::string(group.effect);
  const std::string_view effect = group.effect;
  if (effect != "stretched" && effect != "shortened") return text;
  return text + " x " + stretch_text(group);
}

// "sliding_attention layers"
std::string types_text(const RopeView& view) { return in_locale(printable(joined(view.layer_types))) + " layers"; }

class Summary {
 public:
  explicit Summary(const RopeView& view) : view_(view) {}

  std::vector<SummaryRow> rows() && {
    add_head();
    add_turning();
    add_scaling();
    return std::move(rows_);
  }

 private:
  std::string origin_of(const std::string& value) const {
    for (const ValueOrigin& known : view_.origins) {
      if (known.value == value) {
        const OriginKind kind = known.origin.kind;
        const bool by_default = kind == OriginKind::model_default || kind == OriginKind::method_default;
        return (by_default ? "default of " : std::string(origin_word(kind)) + ": ") +
               in_locale(printable(known.origin.key));
      }
    }
    return "";
  }

  void add(const std::string& key, const std::string& value, const std::string& named) {
    rows_.push_back({key, value, origin_of(named)});
  }

  void add_head() {
    const ModelRope& used = *view_.used;
    if (!used.layers.empty()) add("layers", short_ranges(used.layers, widest_value), "layers");
    if (!view_.layers_without_rope.empty())
      add("without a rope", short_ranges(view_.layers_without_rope, widest_value), "layers");
    if (used.heads > 0) {
      add("heads", std::to_string(used.heads), "heads");
      add("kv_heads", std::to_string(used.kv_heads), "kv_heads");
    }
    add("head_dim", std::to_string(used.rope.head_dim), "head_dim");
  }

  void add_turning() {
    const ModelRope& used = *view_.used;
    const int width = used.rope.rotary_dim;
    add("rotary_dim", std::to_string(width) + " (" + counted(static_cast<std::size_t>(width / 2), "pair") + ")",
        "rotary_dim");
    if (used.first != 0) add("rotated", elements_text(used), "first");
    add("pairing", detail::familiar(used.rope.pairing), "pairing");
    if (used.rope.clockwise) add("direction", direction(used.rope), "direction");
    if (view_.axis_names.size() > 1 && used.rope.summed_axes == 0) add("axes", axes_text(), "axis");
    if (used.rope.inv_freq.empty()) {
      add("base", significant(used.rope.base, 17), "base");
    } else {
      add("inv_freq", list_text(used.rope.inv_freq), "inv_freq");
    }
    for (const auto& [word, value] : equation_facts(used.rope)) add(word, value, "inv_freq");
    if (!used.rope.multiplier.empty()) add("multiplier", list_text(used.rope.multiplier), "multiplier");
  }

  // Whether the pairs of every axis are next to each other.
  bool in_runs() const {
    int runs = 1;
    for (std::size_t i = 1; i < view_.pairs.size(); ++i) runs += view_.pairs[i].axis != view_.pairs[i - 1].axis ? 1 : 0;
    return runs <= view_.frequencies.axes();
  }

  // "pairs by turns: time 24, height 20, width 20"
  std::string axes_text() const {
    std::string text;
    for (int axis = 0; axis < view_.frequencies.axes(); ++axis) {
      const auto pairs = std::count_if(view_.pairs.begin(), view_.pairs.end(),
                                       [axis](const PairView& pair) { return pair.axis == axis; });
      if (!text.empty()) text += ", ";
      text += view_.axis_names[static_cast<std::size_t>(axis)] + ' ' + std::to_string(pairs);
    }
    return (in_runs() ? "pairs one after another: " : "pairs by turns: ") + text;
  }

  void add_scaling() {
    const Scaling& scaling = view_.used->rope.scaling;
    add("scaling", scaling_text(scaling) + (has_one_list(scaling) ? " (one list)" : ""), "scaling");
    scalings::for_each_field(scaling, [this](const auto& field, const auto& value) { add_value(field, value); });
    if (const std::string reach = reach_text(*view_.used, view_.stated_context); !reach.empty())
      rows_.push_back({"lengths", reach});
    if (const std::string which = which_lengths(view_.lengths); !which.empty())
      rows_.push_back({"shown", which + " (--length N for others)"});
    std::vector<std::string> pairs;
    for (const Group& group : groups_of(view_)) pairs.push_back(group_text(group));
    if (pairs.size() > 1 || !std::holds_alternative<Unscaled>(scaling)) rows_.push_back({"pairs", joined(pairs)});
    if (!view_.pairs.empty()) rows_.push_back({"wavelengths", wavelengths_text()});
    const double factor = view_.frequencies.attention_factor;
    if (factor != 1)
      add("attention factor", significant(factor, 10) + " (scores x " + significant(factor * factor, 6) + ")",
          "attention_factor");
    add("context", view_.context > 0 ? std::to_string(view_.context) + " tokens" : "not stated", "context");
  }

  // "6.283 to 2.047e+07 tokens; 35 of 64 pairs go round within 131072"
  std::string wavelengths_text() const {
    std::vector<double> lengths;
    for (const PairView& pair : view_.pairs)
      if (pair.inv_freq != 0) lengths.push_back(std::abs(wavelength_of(pair)));
    if (lengths.empty()) return "none: no pair turns";
    const auto [least, most] = std::ranges::minmax(lengths);
    const std::string text = significant(least, 4) + " to " + significant(most, 4) + " tokens";
    if (view_.turns_over == 0) return text;
    const auto round =
        std::ranges::count_if(lengths, [&](double length) { return length <= static_cast<double>(view_.turns_over); });
    return text + "; " + std::to_string(round) + " of " + counted(view_.pairs.size(), "pair") + " go round within " +
           std::to_string(view_.turns_over);
  }

  // A value without an origin has no effect and is left out. The key is config.json's, but for trained_length, whose
  // key is too wide.
  template <typename Field, typename Value>
  void add_value(const Field& field, const Value& value) {
    const std::string origin = origin_of(std::string("scaling.") + field.name);
    const std::string key = std::string_view(field.name) == "trained_length" ? field.name : field.key;
    if (origin.empty()) return;
    if constexpr (std::is_same_v<Value, std::vector<double>>) {
      rows_.push_back({"  " + key, list_text(value), origin});
    } else {
      rows_.push_back({"  " + key, value_text(value, 10), origin});
    }
  }

  const RopeView& view_;
  std::vector<SummaryRow> rows_;
};

// The last cell is broken between words. If the value reaches into its column, it begins on a line of its own.
void print_row(const SummaryRow& row, const Columns& aligned, std::size_t value_at, std::size_t origin_at) {
  const bool has_origin = !row.origin.empty();
  std::string start = aligned.line(has_origin ? Cells{row.key, row.value, ""} : Cells{row.key, ""});
  const std::size_t margin = has_origin ? origin_at : value_at;
  if (columns(start) > margin) {
    std::cout << without_end_spaces(start) << '\n';
    start.assign(margin, ' ');
  }
  constexpr std::size_t narrowest = 16;
  const std::size_t width = terminal_width() > margin + narrowest ? terminal_width() - margin : narrowest;
  for (const std::string& line : wrapped(has_origin ? row.origin : row.value, width)) {
    std::cout << start + line << '\n';
    start.assign(margin, ' ');
  }
}

}  // namespace

std::vector<SummaryRow> summary_of(const RopeView& view) { return Summary(view).rows(); }

std::string sentence_of(const RopeView& view) {
  const ModelRope& used = *view.used;
  const Rope& rope = used.rope;
  const std::string half = std::to_string(rope.rotary_dim / 2);
  std::string text = used.part.empty() ? "" : in_locale(printable(used.part)) + ", ";
  text += !view.layer_types.empty()          ? types_text(view)
          : view.has_own_layers              ? "layers " + short_ranges(used.layers, widest_value)
          : view.layers_without_rope.empty() ? "every layer"
                                             : "layers with a rope";
  text += rope.pairing == Pairing::half ? ": element i of each head turns with element i + " + half
                                        : ": element 2i of each head turns with element 2i + 1";
  if (rope.pairing == Pairing::interleaved_to_half) text += ", written to i and i + " + half;
  text += ", pairing " + detail::familiar(rope.pairing) + ", in " + elements_text(used);
  if (rope.clockwise) text += ", clockwise";
  if (view.axis_names.size() > 1) text += ", by positions on " + std::to_string(view.axis_names.size()) + " axes";
  text += rope.inv_freq.empty() ? ", base " + significant(rope.base, 10) : ", at given frequencies";
  if (std::holds_alternative<Unscaled>(rope.scaling)) return text + ", not scaled";
  text += ", scaled by " + scaling_text(rope.scaling);
  for (const Group& group : groups_of(view)) {
    if (std::string_view(group.effect) == "stretched")
      text += ": " + std::to_string(group.pairs.size()) + " of " + counted(view.pairs.size(), "pair") + " turn " +
              stretch_text(group) + " times slower";
  }
  return text;
}

void print_summary(const NumberedView& shown, const NumberedView* before) {
  const RopeView& view = shown.second;
  const std::string& part = view.used->part;
  const std::string title = "rope " + std::to_string(shown.first) +
                            (part.empty() ? "" : " of " + in_locale(printable(part))) +
                            (view.layer_types.empty() ? "" : ", " + types_text(view));
  std::cout << '\n' << title << '\n';
  const std::vector<SummaryRow> above = before == nullptr ? std::vector<SummaryRow>{} : summary_of(before->second);
  std::vector<SummaryRow> rows = summary_of(view);
  std::string same;
  std::erase_if(rows, [&](const SummaryRow& row) {
    const bool known = std::find(above.begin(), above.end(), row) != above.end() && row.key != "pairs";
    if (known && !row.key.starts_with(' ')) same += (same.empty() ? "" : ", ") + row.key;
    return known;
  });
  if (!same.empty()) rows.push_back({"as rope " + std::to_string(before->first), same});
  constexpr std::size_t key_width = 16, gap = 2, indent = 2;
  std::vector<Cells> cells;
  for (const SummaryRow& row : rows) {
    cells.push_back(row.origin.empty() ? Cells{row.key, row.value} : Cells{row.key, row.value, row.origin});
  }
  const Columns aligned =
      Columns({{.width = key_width}, {}, {}}, gap, std::string(indent, ' ')).fit(cells, widest_value);
  const std::size_t value_at = columns(aligned.line({"", ""}));
  const std::size_t origin_at = columns(aligned.line({"", "", ""}));
  for (const SummaryRow& row : rows) print_row(row, aligned, value_at, origin_at);
}

void print_pairs(const RopeView& view) {
  std::vector<PairView> pairs = view.pairs;
  const Frequencies& f = view.frequencies;
  const auto count = static_cast<std::size_t>(f.pairs());
  const auto summed = static_cast<std::size_t>(std::max(1, f.summed_axes));
  for (std::size_t k = 0; view.pairs.empty() && k < f.inv_freq.size(); ++k) {  // [heads, axes, pairs]
    const std::size_t axis = f.axis.empty() ? k / count % summed : f.axis[k % count];
    pairs.push_back({.axis = static_cast<int>(axis), .inv_freq = f.inv_freq[k]});
  }
  const auto name_of = [&](std::size_t k) {
    return (f.head_rows > 1 ? std::to_string(k / count / summed) + "/" : "") + std::to_string(k % count);
  };
  std::vector<Cells> rows = {
      {f.head_rows > 1 ? "head/pair" : "pair", "axis", "inv_freq", "wavelength", "turns", "scaling"}};
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const PairView& pair = pairs[i];
    const bool changed = pair.inv_freq != 0 && std::string_view(pair.effect) != "kept";
    rows.push_back({name_of(i), view.axis_names[static_cast<std::size_t>(pair.axis)], significant(pair.inv_freq, 6),
                    pair.inv_freq != 0 ? significant(wavelength_of(pair), 6) : "-",
                    significant(static_cast<double>(view.turns_over) * pair.inv_freq / 6.283185307179586, 5),
                    pair.effect + (changed ? " x " + significant(pair.stretch, 6) : "")});
  }
  std::vector<Column> columns = {{true, 4}, {}, {true, 12}, {true, 12}, {true, 10}, {}};
  const auto leave_out = [&](std::ptrdiff_t column) {
    columns.erase(columns.begin() + column);
    for (Cells& row : rows) row.erase(row.begin() + column);
  };
  if (view.turns_over == 0) leave_out(4);
  if (view.axis_names.size() < 2) leave_out(1);
  std::cout << '\n';
  if (view.turns_over > 0 && view.turns_over != view.context)
    std::cout << "  turns over " << view.turns_over << " tokens: " << which_lengths(view.lengths) << '\n';
  std::cout << Columns(std::move(columns), 2, "  ").fit(rows).text(rows);
}

void print_sentences(std::string_view title, const std::vector<std::string>& sentences) {
  if (sentences.empty()) return;
  if (!title.empty()) std::cout << '\n' << title << '\n';
  constexpr std::size_t indent = 2, widest = std::string::npos;
  const std::size_t width = out_is_terminal() && terminal_width() > 20 ? terminal_width() - 2 * indent : widest;
  for (const std::string& sentence : sentences) {
    std::string margin(indent, ' ');
    for (const std::string& line : wrapped(in_locale(printable(sentence)), width)) {
      std::cout << margin << line << '\n';
      margin.assign(2 * indent, ' ');
    }
  }
}

}  // namespace rotary::cli
