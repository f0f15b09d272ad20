#include "stamp.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "rotary/version.h"
#include "shared/command.h"
#include "shared/tensors.h"
#include "shared/text.h"
#include "text/paths.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

constexpr std::string_view prefix = "rotary.";

// The N and KEY of "rotary.N.KEY"; 0 for any other key.
std::pair<std::size_t, std::string> number_and_key(const std::string& key) {
  std::size_t number = 0;
  if (!key.starts_with(prefix)) return {0, ""};
  const char* begin = key.data() + prefix.size();
  const char* last = key.data() + key.size();
  const auto [end, status] = std::from_chars(begin, last, number);
  constexpr std::size_t most = 100000;  // stamps in a file, which may say anything
  if (status != std::errc() || last - end < 2 || *end != '.' || number > most) return {0, ""};
  return {number, std::string(end + 1, last)};
}

std::vector<std::string> names_in(const std::string& list) {
  const nlohmann::json json = nlohmann::json::parse(list, nullptr, false);
  std::vector<std::string> names;
  if (!json.is_array()) return names;
  for (const nlohmann::json& name : json) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

// Takes the stamps out of the metadata, in their order.
std::vector<Stamp> take_stamps(Metadata& metadata) {
  std::map<std::size_t, Stamp> found;
  std::erase_if(metadata, [&](const auto& entry) {
    const auto [number, name] = number_and_key(entry.first);
    if (number == 0) return false;
    if (name == "tensors") {
      found[number].tensors = names_in(entry.second);
    } else {
      found[number].facts[name] = entry.second;
    }
    return true;
  });
  std::vector<Stamp> stamps;
  for (auto& [number, stamp] : found) stamps.push_back(std::move(stamp));
  return stamps;
}

std::string fact(const Stamp& stamp, const std::string& key) {
  const auto found = stamp.facts.find(key);
  return found == stamp.facts.end() ? "" : found->second;
}

long number(const Stamp& stamp, const std::string& key) {
  const std::string text = fact(stamp, key);
  long value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return std::clamp(value, 0L, 1L << 20);  // a head has fewer elements; the sum of two fits
}

// Whether both turn some element of a head: sister ropes turn different blocks of it.
bool share_elements(const Stamp& a, const Stamp& b) {
  const long a_first = number(a, "first"), b_first = number(b, "first");
  return a_first < b_first + number(b, "rotary_dim") && b_first < a_first + number(a, "rotary_dim");
}

// Whether both are the same but for the direction. made_by does not count: it names the program.
bool are_opposite(const Stamp& a, const Stamp& b) {
  const auto without = [](Metadata facts) {
    for (const char* key : {"direction", "made_by"}) facts.erase(key);
    return facts;
  };
  return without(a.facts) == without(b.facts) && fact(a, "direction") != fact(b, "direction") &&
         std::is_permutation(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end());
}

bool both_multiply(const Stamp& a, const Stamp& b) {
  return !fact(a, "query_scale").empty() && !fact(b, "query_scale").empty();
}

// The last of the stamps that rotates or multiplies elements which `now` does too, as a sentence; "" if there is none.
std::string warning_of(const std::vector<Stamp>& stamps, const Stamp& now) {
  std::string warning;
  for (const Stamp& old : stamps) {
    std::string names;
    const bool turns = share_elements(old, now);
    for (const std::string& name : now.tensors) {
      const bool again = std::ranges::find(old.tensors, name) != old.tensors.end();
      if (again && (turns || both_multiply(old, now))) names += (names.empty() ? "" : ", ") + name;
    }
    if (names.empty()) continue;
    const std::string config = fact(old, "config");
    warning = std::string("warning: by the input's metadata rotary apply has ") + (turns ? "rotated " : "multiplied ") +
              names + " before, " + fact(old, "direction") + (config.empty() ? "" : " by " + config) +
              " at positions " + fact(old, "positions") + "; this " + (turns ? "rotation" : "factor") +
              " comes on top of it";
  }
  return warning;
}

}  // namespace

Metadata metadata_of(const Source& source, const TableSettings& settings, const Model& model,
                     const tools::Subject& subject, const Frequencies& frequencies, std::int64_t length) {
  const ModelRope& used = *subject.used;
  Metadata facts = {{"made_by", std::string("rotary ") + ROTARY_VERSION},
                    {"config", source.config},
                    {"model_type", model.model_type},
                    {"part", used.part}};
  if (subject.scale.form != QueryForm::none) facts["query_scale"] = formula(subject.scale);
  if (!subject.turns) return facts;
  facts.insert({{"rope", std::to_string(&used - model.ropes.data())},
                {"pairing", name(used.rope.pairing)},
                {"direction", direction(used.rope)},
                {"head_dim", std::to_string(used.rope.head_dim)},
                {"rotary_dim", std::to_string(used.rope.rotary_dim)},
                {"first", std::to_string(used.first)},
                {"base", used.rope.inv_freq.empty() ? significant(used.rope.base, 17) : ""},
                {"inv_freq", files::path_text(source.inv_freq)},
                {"weights", files::path_text(source.weights)},
                {"scaling", name(used.rope.scaling)},
                {"attention_factor", significant(frequencies.attention_factor, 17)},
                {"length", std::to_string(length)},
                {"angles", name(settings.angles)},
                {"rounding", name(settings.rounding)}});
  scalings::for_each_field(used.rope.scaling, [&facts](const auto& field, const auto& value) {
    facts[std::string("scaling.") + field.name] = value_text(value, 17);
  });
  for (auto [word, value] : equation_facts(used.rope)) {
    std::replace(word.begin(), word.end(), ' ', '_');
    facts.try_emplace(word, value);
  }
  return facts;
}

RopeInUse use_rope(const Source& source, const TableSettings& settings, const Model& model,
                   const tools::Subject& subject, std::int64_t tokens) {
  const ModelRope& used = *subject.used;
  const std::int64_t length = subject.length_for(tokens);
  RopeInUse use{.frequencies = frequencies_of(source, model, used, length)};
  if (subject.turns) use.notes.push_back(describe(model, used, use.frequencies, length));
  if (source.query_scale) use.notes.push_back("queries are multiplied by " + formula(subject.scale));
  std::ranges::copy(notes_of_use(model, subject), std::back_inserter(use.notes));
  use.facts = metadata_of(source, settings, model, subject, use.frequencies, length);
  return use;
}

void report_written(const std::filesystem::path& output, const nlohmann::ordered_json& facts,
                    const std::vector<std::string>& notes, const std::string& more) {
  if (asks_json()) {
    nlohmann::ordered_json object = {{"output", files::path_text(output)}};
    object.update(facts);
    object["notes"] = notes;
    return print_json(json_text(object));
  }
  if (is_quiet()) return;
  std::ostream& out = is_dash(output) ? std::cerr : std::cout;
  for (const std::string& note : notes) out << printable(note) << '\n';
  out << "wrote " << (is_dash(output) ? "standard output" : printable(files::path_text(output))) << more << '\n';
}

bool add_stamp(Metadata& metadata, Stamp now, std::vector<std::string>& warnings) {
  std::vector<Stamp> stamps = take_stamps(metadata);
  std::erase_if(now.facts, [](const auto& known) { return known.second.empty(); });
  const bool keeps_lengths = fact(now, "attention_factor").empty() || fact(now, "attention_factor") == "1";
  const bool undoes =
      !stamps.empty() && are_opposite(stamps.back(), now) && fact(now, "query_scale").empty() && keeps_lengths;
  if (undoes) {
    stamps.pop_back();
  } else {
    if (const std::string warning = warning_of(stamps, now); !warning.empty()) warnings.push_back(warning);
    stamps.push_back(std::move(now));
  }
  for (std::size_t i = 0; i < stamps.size(); ++i) {
    const std::string begin = std::string(prefix) + std::to_string(i + 1) + ".";
    for (const auto& [key, value] : stamps[i].facts) metadata[begin + key] = value;
    metadata[begin + "tensors"] = nlohmann::json(stamps[i].tensors).dump();
  }
  return undoes;
}

}  // namespace rotary::cli
