// Version, rules between options, completion, man page. (Help and removed commands: cli/tests/transcripts/usage.txt)
#include <algorithm>
#include <sstream>

#include "rotary/version.h"
#include "run.h"
#include "shared/description.h"
#include "shared/progress_line.h"

namespace rotary::cli_tests {
namespace {

class Usage : public Cli {};

Strings command_names() {
  Strings names;
  for (const auto& [title, commands] : cli::describe_program("rotary").groups)
    for (const auto& [name, summary] : commands) names.push_back(name);
  return names;
}

// ---- version ----

TEST_F(Usage, version_begins_with_the_number_and_lists_the_parts) {
  const std::string text = expect_success({"--version"}).out;
  EXPECT_TRUE(text.starts_with("rotary " ROTARY_VERSION "\n")) << text;
  for (const char* part : {"\ntargets   scalar", "; in use: ", "\ngpu       built with", "\ncompiler  "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(expect_success({"-V"}).out, text);
  EXPECT_EQ(expect_success({"version"}).out, text);
  const Result broken = run({"--version"}, "ROTARY_TARGET=abacus");
  EXPECT_EQ(broken.exit, 0);
  EXPECT_NE(broken.out.find("in use: none, because ROTARY_TARGET"), std::string::npos) << broken.out;
}

// ---- the data ----

// rotary-torch reads its presets from presets.json; the two roformer presets of summary are in its code.
TEST_F(Usage, presets_are_those_of_the_trainer) {
  const Json file = Json::parse(read_text(ROTARY_SOURCE_DIR "/torch/rotary_torch/training/presets.json"));
  Strings names;
  for (const Json& preset : file.at("presets")) names.push_back(preset.at("name").get<std::string>());
  const cli::CommandDescription train = cli::describe_command("train", "rotary-torch");
  EXPECT_EQ(train.find("--preset")->words, names);
  const std::string help = cli::describe_command("summary", "rotary-torch").find("--preset")->help;
  for (const std::string& name : names) EXPECT_TRUE(contains(help, name)) << name;
}

// Every rule of a command names its options.
TEST_F(Usage, rules_name_options_of_their_command) {
  const Json data = Json::parse(read_text(ROTARY_SOURCE_DIR "/cli/data/commands.json"));
  int rules = 0;
  for (const std::string& name : command_names()) {
    const cli::CommandDescription command = cli::describe_command(name);
    Strings options;
    for (const cli::OptionDescription& option : command.options) options.push_back(option.name());
    const auto expect_options = [&](const Strings& terms) {
      for (const std::string& term : terms) {
        const std::string option = term.substr(0, term.find_first_of("=!"));  // before a value
        EXPECT_NE(std::find(options.begin(), options.end(), option), options.end()) << name << ' ' << term;
      }
    };
    for (const cli::Rule& rule : command.rules) {
      ++rules;
      expect_options(rule.needs);  // sentences name them
      EXPECT_NE(rule.needs.empty(), rule.excludes.empty()) << name;
      EXPECT_FALSE(rule.options.empty() && rule.needs.empty()) << name;
    }
    const Json own = data.at("commands").at(name).value("rules", Json::array());
    for (const Json& rule : own) {
      if (rule.is_string()) continue;
      expect_options(rule.value("options", Strings()));
      expect_options(rule.value("excludes", Strings()));
    }
  }
  EXPECT_GT(rules, 60);
}

TEST_F(Usage, words_of_the_data_are_those_of_the_program) {
  Strings methods, chapters;
  const Json plan = run_json({"extend", configs + "llama-3-8b.json", "--length", "65536"});
  for (const Json& method : plan.at("methods")) methods.push_back(method.at("method").get<std::string>());
  EXPECT_EQ(cli::describe_command("extend").find("--scaling")->words, methods);
  const Json contents = run_json({"explain"});
  for (const Json& chapter : contents.at("chapters")) chapters.push_back(chapter.at("id").get<std::string>());
  EXPECT_EQ(cli::describe_command("explain").options.front().words, chapters);
  const std::string help = expect_success({"accuracy", "--help"}).out;
  const Json study = run_json({"accuracy"});
  ASSERT_FALSE(study.at("ways").empty());
  for (const Json& way : study.at("ways"))
    EXPECT_TRUE(contains(help, "\n  " + way.at("way").get<std::string>() + " ")) << way;
}

// ---- quiet, progress ----

TEST_F(Usage, progress_is_one_line_that_goes_away) {
  std::ostringstream shown;
  {
    cli::ProgressLine progress("work", 8, &shown, 0);
    progress.done(2);
    EXPECT_EQ(shown.str(), "work: 2 of 8, 25 %");
    progress.done(3);  // at most five times a second
    EXPECT_EQ(shown.str(), "work: 2 of 8, 25 %");
  }
  EXPECT_EQ(shown.str(), "work: 2 of 8, 25 %\r                  \r");
  std::ostringstream nothing;
  cli::ProgressLine quick("work", 8, &nothing, 60);
  quick.done(8);
  EXPECT_EQ(nothing.str(), "");
}

// ---- the completion and the man page ----

// A file that cli/shell_files.py wrote during the build.
std::string shell_file(const std::string& name) { return read_text(ROTARY_BINARY_DIR "/shell/" + name); }

// The text from `mark`, which must be there, to the next `end`.
std::string part_of(const std::string& text, const std::string& mark, const std::string& end) {
  const std::size_t begin = text.find(mark);
  EXPECT_NE(begin, std::string::npos) << mark;
  return begin == std::string::npos ? "" : text.substr(begin, text.find(end, begin + mark.size()) - begin);
}

TEST_F(Usage, every_command_and_option_stands_in_the_completion_and_the_man_page) {
  const std::string bash = shell_file("rotary"), man = shell_file("rotary.1");
  const std::string rope_options = part_of(man, "\n.SH ROPE OPTIONS\n", "\n.S");
  int options = 0;
  for (const std::string& name : command_names()) {
    const std::string completed = part_of(bash, "    *' " + name + " '*) options='", "\n");
    std::string section = part_of(man, "\n.SS rotary " + name + "\n", "\n.S");
    if (contains(section, "The rope options below belong to it too.")) section += rope_options;
    for (const cli::OptionDescription& option : cli::describe_command(name).options) {
      const std::string word = option.long_name();
      if (!word.starts_with("--")) continue;
      ++options;
      EXPECT_TRUE(std::regex_search(completed, std::regex(word + "[ ']"))) << name << ' ' << word;
      const std::string dashes = std::regex_replace(word, std::regex("-"), "\\-");
      EXPECT_TRUE(word == "--help" || word == "--quiet" || word == "--models" || contains(section, dashes))
          << name << ' ' << word;
    }
  }
  EXPECT_GT(options, 60);
}

// Runs bash itself, with the words that a person has typed.
TEST_F(Usage, bash_completes_commands_options_and_values) {
  write_text(path("rotary.bash"), shell_file("rotary"));
  const auto completed = [this](const std::string& typed) {
    const std::string script =
        "source '" + path("rotary.bash") + "'; COMP_WORDS=(rotary " + typed +
        "); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); _rotary 2>/dev/null; echo \"${COMPREPLY[*]}\"";
    write_text(path("try.bash"), script);
    EXPECT_EQ(std::system(("bash '" + path("try.bash") + "' >'" + path("completed") + "'").c_str()), 0);
    return read_text(path("completed"));
  };
  EXPECT_EQ(completed("inspe"), "inspect\n");
  EXPECT_EQ(completed("apply --pos"), "--positions\n");
  EXPECT_EQ(completed("apply --layout ''"), "bthd bhtd tbhd thd htd hd td flat\n");
  EXPECT_EQ(completed("apply --layout = tb"), "tbhd\n");
  EXPECT_EQ(completed("table --form j"), "joined\n");
  EXPECT_EQ(completed("help inspe"), "inspect\n");
}

}  // namespace
}  // namespace rotary::cli_tests
