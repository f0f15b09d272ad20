#include "request.h"

#include <algorithm>
#include <map>

#include "apps/rotary/runs.h"
#include "apps/shared/displayable.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "files/text/paths.h"
#include "table/turns.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

// A path whose last part says which model it is.
std::string telling_path(const std::string& config) {
  if (config == "-") return "standard input";
  const std::filesystem::path path = files::path_of(config);
  const std::string file = files::path_text(path.filename());
  if (file == "config.json" || file == "params.json")
    return path.has_parent_path() ? files::path_text(path.parent_path()) : ".";
  const bool named_by_file = path.extension() == ".json" || path.extension() == ".gguf";
  return named_by_file ? files::path_text(path.parent_path() / path.stem()) : config;
}

// A rope that nothing describes is RoFormer's, of 128 elements. The pairing decides nothing that is drawn of such a
// rope, but the scores of given q and k.
void complete(Source& source, bool needs_pairing) {
  if (!source.config.empty()) return;
  if (!source.base && source.inv_freq.empty()) source.base = 10000;
  if (source.pairing.empty() && !needs_pairing) source.pairing = "half";
  if (source.head_dim) return;
  source.head_dim = source.rotary_dim.value_or(128) + source.first.value_or(0);
  if (!source.inv_freq.empty())
    source.head_dim = 2 * read_pair_rows(files::path_of(source.inv_freq), "inv_freq").pairs + source.first.value_or(0);
}

std::string scaling_name(const std::string& word, const std::optional<double>& factor) {
  if (word == "default") return "no scaling";
  return word + (factor ? " " + significant(*factor, 6) : "");
}

// The lengths that a scaling starts from and reaches, of one whose frequencies depend on the length.
std::optional<std::int64_t> drawn_length(const PlotRequest& request, const ModelRope& used) {
  if (request.source.length) return request.source.length;
  if (!depends_on_length(used.rope.scaling)) return std::nullopt;
  std::int64_t length = std::max(used.context, reach_of(used));
  if (const auto* dynamic = std::get_if<Dynamic>(&used.rope.scaling)) {
    const double reached = static_cast<double>(dynamic->trained_length) * dynamic->factor;
    length = std::max(length, static_cast<std::int64_t>(std::min(reached, 1e15)));
  }
  return length > 0 ? std::optional(length) : std::nullopt;
}

// Those that turn by the places of tokens, and differ.
std::vector<const ModelRope*> distinct_ropes(const Model& model) {
  std::vector<const ModelRope*> distinct;
  for (const ModelRope& used : model.ropes) {
    const auto is_same = [&](const ModelRope* other) { return other->rope == used.rope; };
    if (!used.coordinates && std::none_of(distinct.begin(), distinct.end(), is_same)) distinct.push_back(&used);
  }
  return distinct;
}

// Which of a model's ropes it is, in a few words.
std::string which_rope(const Model& model, const ModelRope& used) {
  const auto in_its_part = std::count_if(model.ropes.begin(), model.ropes.end(),
                                         [&](const ModelRope& other) { return other.part == used.part; });
  const std::string number = "rope " + std::to_string(&used - model.ropes.data());
  if (in_its_part == 1 && !used.part.empty()) return used.part;
  return used.layer_types.size() == 1 ? number + " (" + used.layer_types[0] + ")" : number;
}

// Of a rope whose pairs have several speeds each of its axes, over the pairs of all heads; any other itself.
std::vector<PlottedRope> by_axis(const PlottedRope& rope, bool alone) {
  const Frequencies& f = rope.view.frequencies;
  if (!rope.view.pairs.empty()) return {rope};
  std::vector<PlottedRope> all;
  const std::int64_t pairs = std::int64_t{f.heads} * f.pairs();
  std::vector<double> terms;
  detail::fill_terms(f, f.axes(), pairs, terms);
  for (int axis = 0; axis < f.axes(); ++axis) {
    PlottedRope& one = all.emplace_back(rope);
    const std::string& name = rope.view.axis_names[static_cast<std::size_t>(axis)];
    if (f.axes() > 1) one.name = (alone ? "" : rope.name + ", ") + (alone && name.size() == 1 ? "axis " : "") + name;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const double speed = terms[static_cast<std::size_t>(axis * pairs + i)];
      one.view.pairs.push_back({axis, speed, speed == 0 ? 0.0 : 1.0});
    }
  }
  return all;
}

// alone: nothing else is drawn.
void add_ropes(PlottedRopes& all, const PlotRequest& request, Source source, const std::string& name, bool every,
               bool alone) {
  check_source_without_tensor(source);
  const auto model = std::make_shared<const Model>(read_model(source, source.head_dim.value_or(0)));
  const std::vector<const ModelRope*> distinct = distinct_ropes(*model);
  const bool all_of_them = every && !source.names_rope() && source.scaling.empty() && !distinct.empty();
  const auto chosen = all_of_them ? distinct : std::vector<const ModelRope*>{&chosen_rope(*model, source)};
  for (const ModelRope* used : chosen) {
    PlottedRope rope{name, model, used, {}, {}};
    if (distinct.size() > 1) {
      const std::string which = which_rope(*model, *used);
      rope.name = alone && chosen.size() > 1 ? which : name + (name.empty() ? "" : ", ") + which;
      if (alone && chosen.size() == 1) all.subject += ", " + which;
    }
    const std::optional<std::int64_t> length = drawn_length(request, *used);
    frequencies_of(source, used->rope, length.value_or(0));  // what is wrong names the file
    rope.view = view_rope(*used, length);
    if (!which_lengths(rope.view.lengths).empty()) rope.length = length;
    if (rope.length) rope.name += " at " + std::to_string(*length);
    const std::vector<PlottedRope> parts = every ? by_axis(rope, alone) : std::vector{rope};
    all.ropes.insert(all.ropes.end(), parts.begin(), parts.end());
  }
}

}  // namespace

PlottedRopes read_ropes(const PlotRequest& request, bool every) {
  const std::vector<std::string> configs = request.configs.empty() ? std::vector<std::string>{""} : request.configs;
  const std::vector<std::string> words =
      request.scalings.empty() ? std::vector{request.source.scaling} : request.scalings;
  if (!request.scalings.empty() && !request.source.scaling.empty())
    throw UsageError("--scaling and --scalings both give the scaling: give one of them");
  std::vector<std::string> paths;
  for (const std::string& config : configs) paths.push_back(telling_path(config));
  const std::vector<std::string> labels = unique_names(paths);
  PlottedRopes all;
  const bool alone = configs.size() == 1 && words.size() == 1;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    for (const std::string& word : words) {
      Source source = request.source;
      source.config = configs[i];
      source.scaling = word;
      if (!request.scalings.empty()) source.scaling_option = "--scalings";
      if (word == "default" && !request.scalings.empty()) source.factor.reset(), source.trained_length.reset();
      complete(source, !request.q.empty());
      std::string label = labels[i];
      if (configs[i].empty()) label = source.base ? "base " + significant(*source.base, 10) : "inv_freq";
      if (i == 0) {
        const std::string dims = configs[i].empty() ? ", head_dim " + std::to_string(*source.head_dim) : "";
        all.subject = configs.size() > 1 ? "" : ": " + label + dims;
      }
      const std::string variant = word.empty() ? "" : scaling_name(word, source.factor);
      std::string name = configs.size() > 1 || variant.empty() ? label : variant;
      if (configs.size() > 1 && !variant.empty()) name += ", " + variant;
      add_ropes(all, request, source, name, every, alone);
    }
  }
  return all;
}

std::int64_t trained_tokens(const ModelRope& used) {
  const std::int64_t own = trained_length(used.rope.scaling);
  return own == 0 && reach_of(used) > 0 ? used.context : own;
}

std::int64_t context_tokens(const PlotRequest& request, const ModelRope& used) {
  return request.source.length.value_or(std::max(used.context, reach_of(used)));
}

MarkedLengths marked_lengths(const PlotRequest& request, const std::vector<PlottedRope>& ropes) {
  constexpr std::size_t most = 6;
  std::map<std::int64_t, bool> lengths;                        // whether one was trained on it
  std::vector<std::pair<std::string, std::string>> sentences;  // of the ropes, and whose they are
  MarkedLengths all;
  for (const PlottedRope& rope : ropes) {
    const std::int64_t trained = trained_tokens(*rope.used), context = context_tokens(request, *rope.used);
    std::string sentence;
    const auto add = [&](const char* what, std::int64_t tokens) {
      lengths[tokens] = lengths[tokens] || tokens == trained;
      sentence += (sentence.empty() ? "" : ", ") + std::string(what) + std::to_string(tokens);
    };
    if (trained > 0) add("trained length ", trained);
    if (context > 0 && context != trained) add("context ", context);
    const auto same =
        std::find_if(sentences.begin(), sentences.end(), [&](const auto& other) { return other.first == sentence; });
    std::string& whose = same == sentences.end() ? sentences.emplace_back(sentence, "").second : same->second;
    whose += (whose.empty() ? "" : ", ") + shorten_middle(displayable(rope.name), 26);
  }
  if (lengths.size() > most) return all;
  for (const auto& [sentence, whose] : sentences)
    if (!sentence.empty()) add_to_note(all.note, sentence + ": " + whose);
  if (sentences.size() < 2 || request.configs.size() < 2) all.note.clear();
  for (const auto& [tokens, is_trained] : lengths)
    all.marks.push_back(
        {static_cast<double>(tokens), (is_trained ? "trained length " : "context ") + std::to_string(tokens)});
  return all;
}

}  // namespace rotary::cli
