// Reads command lines, and says what is wrong with one that cannot be understood.
#include <algorithm>
#include <iostream>
#include <map>
#include <string_view>
#include <vector>

#include "files/text/nearest.h"
#include "sheet.h"
#include "text.h"
#include "usage_error.h"

namespace rotary::cli {

namespace {

using Words = std::vector<std::string>;

std::string bare(std::string_view word) {  // "--rotary_dim" -> "rotary-dim"
  std::string name = lower(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool is_option_word(std::string_view word) { return word.size() > 1 && word[0] == '-' && word != "--"; }

const Option* find(const CommandEntry& command, std::string_view name) {
  for (const Option& option : command.options) {
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) return &option;
  }
  return nullptr;
}

Words long_names(const CommandEntry& command, bool required_only) {
  Words names;
  for (const OptionSheet& option : command.options) {
    const std::string name = long_name(option);
    if (!name.empty() && (option.required || !required_only)) names.push_back(name);
  }
  return names;
}

// The options that begin like name: required ones before others.
Words beginning_with(const CommandEntry& command, const std::string& name) {
  for (const bool required : {true, false}) {
    Words found;
    for (const std::string& known : long_names(command, required)) {
      if (!name.empty() && bare(known).starts_with(name)) found.push_back(known);
    }
    if (!found.empty()) return found;
  }
  return {};
}

std::string no_option(const CommandEntry& command, const std::string& name) {
  const std::string sentence = "there is no option '" + name + "'";
  const std::string wanted = bare(name);
  for (const OptionSheet& option : command.options) {
    if (!option.place.empty() && bare(option.place) == wanted)
      return sentence + ": " + option.place + " is given without a name";
  }
  Words bare_names;
  const Words names = long_names(command, false);
  for (const std::string& known : names) bare_names.push_back(bare(known));
  const std::vector<std::string_view> views(bare_names.begin(), bare_names.end());
  Words meant;
  if (const std::string_view near = files::nearest(wanted, views); !near.empty()) {
    meant.push_back(names[static_cast<std::size_t>(std::find(views.begin(), views.end(), near) - views.begin())]);
  } else {
    meant = beginning_with(command, wanted);
  }
  if (meant.empty() || meant.size() > 3) return sentence;
  return sentence + ": did you mean " + one_of_words(meant) + "?";
}

// "-qh": short flags in one word.
bool are_short_flags(const CommandEntry& command, std::string_view word) {
  if (word.size() < 3 || word[1] == '-') return false;
  return std::all_of(word.begin() + 1, word.end(), [&](char letter) {
    const Option* option = find(command, std::string("-") + letter);
    return option != nullptr && option->value.empty();
  });
}

// What the help calls it.
std::string shown_name(const OptionSheet& option) { return option.place.empty() ? long_name(option) : option.place; }

// ---- the options that words name, and their values ----

class Reader {
 public:
  Reader(const CommandEntry& command, const Words& words) : command_(command), words_(words) {
    for (; next_ < words.size() && words[next_] != "--"; ++next_) {
      if (!is_option_word(words[next_])) {
        read_bare();
      } else if (are_short_flags(command, words[next_])) {
        for (const char letter : words[next_].substr(1)) given_[find(command, std::string("-") + letter)];
      } else {
        read_option();
      }
    }
    open_ = nullptr;
    for (++next_; next_ < words.size(); ++next_) read_bare();
  }

  // Sets what the values are for. Throws UsageError.
  void read_values() const {
    for (const Option& option : command_.options) {
      const auto found = given_.find(&option);
      const std::string wrong = found == given_.end() ? "" : option.read(found->second);
      if (!wrong.empty()) throw UsageError(shown_name(option) + " " + wrong);
    }
  }

  // Throws UsageError where an option is missing, or does not go together with another, or a word is for none.
  void check_rules() const {
    for (const Option& option : command_.options) {
      if (option.required && !given_.contains(&option)) throw UsageError(shown_name(option) + " is required");
      if (option.excludes.empty() || !given_.contains(&option)) continue;
      for (const auto& [other, values] : given_)
        if (shown_name(*other) == option.excludes)
          throw UsageError(option.excludes + " and " + shown_name(option) + " do not go together");
    }
    if (extras_.empty()) return;
    Words places;
    for (const Option& option : command_.options)
      if (!option.place.empty()) places.push_back(option.place);
    const std::string takes = places.empty() ? "options only" : "one " + one_of_words(places);
    throw UsageError(command_.name + " takes " + takes + " but got '" + extras_.front() + "'" +
                     (places.empty() ? "" : " too"));
  }

  bool has(const char* name) const { return given_.contains(find(command_, name)); }

 private:
  // A word that names no option: a value of the list before it, but for words that required places need; else of the
  // first place that takes one.
  void read_bare() {
    const auto waits = [&](const Option& option) { return !option.place.empty() && !given_.contains(&option); };
    const auto needed =
        std::ranges::count_if(command_.options, [&](const Option& option) { return option.required && waits(option); });
    if (words_.size() - next_ <= static_cast<std::size_t>(needed)) open_ = nullptr;
    if (open_ != nullptr) return add_value(*open_, words_[next_]);
    const auto takes = [&](const Option& option) { return waits(option) || (!option.place.empty() && option.list); };
    const auto place = std::ranges::find_if(command_.options, takes);
    if (place == command_.options.end()) return extras_.push_back(words_[next_]);
    add_value(*place, words_[next_]);
  }

  void read_option() {
    open_ = nullptr;
    const std::string& word = words_[next_];
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const Option* option = find(command_, name);
    if (option == nullptr) throw UsageError(no_option(command_, name));
    if (option->value.empty()) {
      if (equals != std::string::npos)
        throw UsageError(name + " takes no value but got '" + word.substr(equals + 1) + "'");
      given_[option];
      return;
    }
    if (given_.contains(option) && !option->list) throw UsageError(name + " is given twice");
    if (option->list) open_ = option;
    if (equals != std::string::npos && equals + 1 < word.size()) return add_value(*option, word.substr(equals + 1));
    const std::string needs = name + " needs a value, " + name + " " + option->value;
    if (next_ + 1 == words_.size()) throw UsageError(needs + ", but is the last word");
    const std::string& value = words_[++next_];
    if (is_option_word(value) && find(command_, value.substr(0, value.find('='))) != nullptr)
      throw UsageError(needs + ", but got the option " + value);
    add_value(*option, value);
  }

  void add_value(const Option& option, const std::string& word) {
    Words values = option.comma_list ? split(word, ',') : Words{word};
    if (values.size() > 1) std::erase(values, "");
    if (values.empty()) values = {word};
    Words& all = given_[&option];
    all.insert(all.end(), values.begin(), values.end());
  }

  const CommandEntry& command_;
  const Words& words_;
  std::size_t next_ = 0;
  const Option* open_ = nullptr;  // a list that takes further words
  std::map<const Option*, Words> given_;
  Words extras_;  // that no place takes
};

}  // namespace

const CommandEntry* command_named(const Program& program, const std::string& name) {
  const auto found = std::ranges::find(program.commands, name, &CommandEntry::name);
  return found == program.commands.end() ? nullptr : &*found;
}

std::string no_command(const Program& program, const std::string& word) {
  std::vector<std::string_view> names = {"help", "version"};
  for (const CommandEntry& command : program.commands) names.push_back(command.name);
  const std::string_view meant = files::nearest(word, names);
  const std::string sentence = "there is no command '" + word + "'";
  return meant.empty() ? sentence : sentence + ": did you mean " + std::string(meant) + "?";
}

void run_entry(const Program& program, const CommandEntry* command, const Words& words) {
  const CommandEntry& entry = command == nullptr ? program.own : *command;
  const Reader reader(entry, words);
  reader.read_values();
  if (reader.has("--help") || reader.has("-h")) {
    const CommandSheet sheet = command == nullptr ? sheet_of(program) : sheet_of(*command);
    const std::string full_name = program.own.name + (command == nullptr ? "" : " " + command->name);
    std::cout << (reader.has("--help") ? help_text(sheet, full_name, help_width())
                                       : short_help_text(sheet, full_name, short_help_width()));
    return;
  }
  reader.check_rules();
  if (entry.run) entry.run();
}

}  // namespace rotary::cli
