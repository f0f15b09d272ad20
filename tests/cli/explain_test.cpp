// The chapters of `rotary explain`: docs/explain is what the program prints and the pictures that it writes
// (ROTARY_UPDATE_DOCS=1 writes them anew), and
// every number with decimals is judged by mpmath (tools/golden/make_explain_numbers.py).
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run.h"

namespace rotary::cli_tests {
namespace {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;
using Strings = Lines;

const std::filesystem::path folder = ROTARY_SOURCE_DIR "/docs/explain";

struct Named {
  std::string number;
  std::string id;
  std::string title;
  std::string file() const { return (number.size() < 2 ? "0" : "") + number + "-" + id + ".md"; }
};

class Explain : public Cli {
 protected:
  std::string print(const std::vector<std::string>& words) const {
    std::vector<std::string> all{"explain"};
    all.insert(all.end(), words.begin(), words.end());
    return expect_success(all).out;
  }

  std::vector<Named> listed() const {
    std::vector<Named> chapters;
    for (const std::string& line : lines_of(print({"--list"}))) {
      static const std::regex form(" *([0-9]+)  ([a-z]+) +(.+)");
      std::smatch parts;
      EXPECT_TRUE(std::regex_match(line, parts, form)) << line;
      chapters.push_back({parts[1], parts[2], parts[3]});
    }
    return chapters;
  }

  static Lines lines_of(const std::string& text) {
    Lines lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
};

// Numbers with a decimal point or a power of ten, in reading order; not the numbers of papers.
std::vector<std::string> decimals_of(const std::string& text) {
  static const std::regex token("arXiv:[0-9.]+|-?[0-9]+\\.[0-9]+(e[-+]?[0-9]+)?|-?[0-9]+e[-+]?[0-9]+");
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), token), end; at != end; ++at) {
    if (!at->str().starts_with("arXiv:")) found.push_back(at->str());
  }
  return found;
}

TEST_F(Explain, docs_explain_holds_what_the_program_prints) {
  const bool update = std::getenv("ROTARY_UPDATE_DOCS") != nullptr;
  std::map<std::string, std::string> wanted{{"README.md", print({"--list", "--markdown"})}};
  for (const Named& chapter : listed()) wanted[chapter.file()] = print({chapter.id, "--markdown"});
  std::filesystem::create_directory(path("pictures"));
  print({"--pictures", path("pictures")});
  for (const auto& entry : std::filesystem::directory_iterator(path("pictures"))) {
    const std::string file = entry.path().filename().string();
    wanted[file] = read_text(entry.path());
    const auto is_shown = [&](const auto& page) { return page.second.find("](" + file + ")") != std::string::npos; };
    EXPECT_EQ(std::count_if(wanted.begin(), wanted.end(), is_shown), 1) << file;
  }
  if (update) {
    std::filesystem::create_directories(folder);
    for (const auto& [file, text] : wanted) write_text(folder / file, text);
  }
  std::map<std::string, std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    found[entry.path().filename().string()] = read_text(entry.path());
  }
  for (const auto& [file, text] : wanted) EXPECT_EQ(lines_of(found[file]), lines_of(text)) << file;
  EXPECT_EQ(found.size(), wanted.size());
}

TEST_F(Explain, pictures_are_written_for_a_topic_or_for_all) {
  std::filesystem::create_directory(path("one"));
  EXPECT_EQ(print({"turn", "--pictures", path("one")}), "wrote " + path("one/01-turn.svg") + "\n");
  EXPECT_EQ(print({"2", "--pictures", path("one")}), "") << "a chapter without pictures";
  EXPECT_GE(lines_of(print({"--pictures", path("one")})).size(), 6U);
  expect_error({"explain", "--pictures", path("nowhere")}, "FILE");
  expect_usage({"explain", "zebra", "--pictures", path("one")});
}

TEST_F(Explain, every_number_with_decimals_is_the_one_that_mpmath_gives_in_that_place) {
  const Json golden = Json::parse(read_text(ROTARY_SOURCE_DIR "/tests/golden/explain.json")).at("chapters");
  const std::vector<Named> chapters = listed();
  ASSERT_EQ(golden.size(), chapters.size());
  std::size_t judged = 0;
  for (const Named& chapter : chapters) {
    SCOPED_TRACE(chapter.id);
    const Json& numbers = golden.at(chapter.id).at("numbers");
    for (const std::string& text : {print({chapter.id}), print({chapter.id, "--markdown"})}) {
      const std::vector<std::string> printed = decimals_of(text);
      EXPECT_EQ(printed.size(), numbers.size());
      auto next = printed.begin();
      for (const auto& [key, value] : numbers.items()) {
        if (next == printed.end()) break;
        EXPECT_EQ(*next++, value.get<std::string>()) << key;
        ++judged;
      }
    }
    for (const Json& phrase : golden.at(chapter.id).at("phrases")) {
      EXPECT_NE(print({chapter.id, "--markdown"}).find(phrase.get<std::string>()), std::string::npos) << phrase;
    }
  }
  EXPECT_GT(judged, 1000U);
}

TEST_F(Explain, the_numbers_that_everybody_quotes_are_there) {
  const std::string turn = print({"turn"});
  for (const char* number : {"(0.633975, 3.098076)", "5.000000"}) EXPECT_NE(turn.find(number), std::string::npos);
  const std::string pairs = print({"pairs"});
  for (const char* number : {"0.540302", "-0.416147", "-0.839072", "0.862319", "0.562379"}) {
    EXPECT_NE(pairs.find(number), std::string::npos) << number;
  }
}

TEST_F(Explain, the_terminal_needs_80_columns_of_plain_characters) {
  for (const std::string& line : lines_of(print({"all"}))) {
    EXPECT_LE(line.size(), 80U) << line;
    EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; })) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST_F(Explain, a_topic_is_an_id_or_a_number) {
  for (const Named& chapter : listed()) {
    EXPECT_EQ(print({chapter.id}), print({chapter.number}));
    EXPECT_TRUE(print({chapter.id}).starts_with(chapter.number + ". " + chapter.title + "\n"));
  }
}

TEST_F(Explain, without_a_topic_the_first_chapter_and_the_list_are_printed) {
  const std::string text = print({});
  EXPECT_TRUE(text.starts_with(print({"1"})));
  EXPECT_TRUE(text.ends_with(print({"--list"})));
}

TEST_F(Explain, all_has_every_chapter_in_order) {
  const std::string text = print({"all"});
  std::size_t at = 0;
  for (const Named& chapter : listed()) {
    at = text.find(chapter.number + ". " + chapter.title + "\n", at);
    EXPECT_NE(at, std::string::npos) << chapter.id;
  }
}

TEST_F(Explain, an_unknown_topic_is_wrong_usage_and_names_the_topics) {
  for (const char* topic : {"rope", "0", "16", "01", "-1", "zebra", "nonsense", "the", ""}) {
    expect_usage({"explain", topic});
  }
  const std::string sentence = run({"explain", "zebra"}).err;
  for (const Named& chapter : listed()) EXPECT_NE(sentence.find(chapter.id), std::string::npos) << chapter.id;
  expect_usage({"explain", "turn", "--list"});
}

TEST_F(Explain, a_topic_may_be_in_capitals_misspelt_or_a_word_of_a_chapter) {
  EXPECT_EQ(print({"Scaling"}), print({"scaling"}));
  EXPECT_EQ(print({"ALL"}), print({"all"}));
  const auto sentence = [this](const char* topic) {
    const std::string text = run({"explain", topic}).err;
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(sentence("scalling"), "usage error: there is no topic 'scalling': did you mean scaling?");
  EXPECT_EQ(sentence("yarm"), "usage error: there is no topic 'yarm': did you mean yarn?");
  EXPECT_EQ(sentence("lonrope"), "usage error: there is no topic 'lonrope': did you mean longrope?");
  EXPECT_EQ(sentence("rope").find("usage error: there is no topic 'rope', but these chapters have the word: "), 0U)
      << sentence("rope");
}

TEST_F(Explain, a_search_word_finds_its_chapter) {
  const std::map<std::string, Strings> words = {
      {"pairing", {"gpt-j", "GPT-NeoX", "neox", "rotate_half"}},
      {"frequencies", {"inv_freq", "rope_theta", "wavelength"}},
      {"partial", {"rotary_dim", "partial_rotary_factor"}},
      {"cache", {"kv cache", "KV-cache", "position_ids"}},
      {"scaling", {"yarn", "YaRN", "ntk", "llama3", "linear", "rope_scaling"}},
      {"precision", {"bf16", "float32", "tf32", "a long way from zero"}},
      {"axes", {"mrope", "M-RoPE", "video", "images", "2-D"}},
      {"deepseek", {"DeepSeek", "mla", "interleaved_to_half"}},
      {"length", {"longrope", "dynamic", "LongRoPE"}},
      {"complex", {"conjugate"}}};  // of no list: the one chapter that has it
  EXPECT_EQ(print({"KV", "cache"}), print({"cache"}));
  for (const auto& [id, topics] : words) {
    for (const std::string& topic : topics) EXPECT_EQ(print({topic}), print({id})) << topic;
  }
}

const std::string configs = ROTARY_SOURCE_DIR "/tests/golden/configs/";

// Llama 2 has the rope of chapters 8 and 11, so that mpmath's numbers of those chapters judge these.
TEST_F(Explain, chapters_8_and_11_are_told_of_ones_own_model) {
  const std::string llama = configs + "llama-2-7b.json";
  const std::string fast = print({"frequencies", "--config", llama}), far = print({"scaling", "--config", llama});
  EXPECT_EQ(print({"--config", llama}), fast + "\n\n" + far);
  EXPECT_EQ(print({"8", "--config", llama}), fast);
  EXPECT_EQ(print({"yarn", "--config", llama}), far);
  EXPECT_TRUE(fast.starts_with("8. Why many frequencies: " + llama + "\n")) << fast;
  EXPECT_TRUE(far.starts_with("11. Past the trained length: " + llama + "\n")) << far;
  const Json golden = Json::parse(read_text(ROTARY_SOURCE_DIR "/tests/golden/explain.json")).at("chapters");
  const auto expect_in = [&](const std::string& text, const char* chapter, const Strings& keys) {
    for (const std::string& key : keys) {
      const std::string number = golden.at(chapter).at("numbers").at(key).get<std::string>();
      EXPECT_NE(text.find(number), std::string::npos) << key << ' ' << number;
    }
  };
  expect_in(fast, "frequencies",
            {"pair 0: inv_freq", "pair 63: inv_freq", "pair 63: wavelength", "pair 63: turns", "mean at 1", "mean at 2",
             "base 500000: pair 63", "base 1000000: pair 63"});
  expect_in(far, "scaling",
            {"angle of pair 63 at 4095", "no scaling: pair 63 at 16383", "YaRN: pair 63 at 16383",
             "NTK: pair 63 at 16383", "linear: pair 0, neighbours", "YaRN's attention factor", "pair 63: llama3"});
}

TEST_F(Explain, what_a_scaled_model_does_to_its_pairs) {
  const std::string text = print({"scaling", "--config", configs + "llama-3.1-8b.json"});
  for (const char* part : {"scaled by llama3 (trained 8192, factor 8, context 131072)",
                           "0-28 kept; 29-34 blended; 35-63", "angle of pair 63 at 131071"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << '\n' << text;
  }
  const std::string phi = configs + "phi-3-mini-128k.json";
  EXPECT_NE(print({"scaling", "--config", phi}).find("long list"), std::string::npos) << "the whole context";
  EXPECT_NE(print({"scaling", "--config", phi, "--length", "100"}).find("short list"), std::string::npos);
  const std::string video = print({"8", "--config", configs + "qwen2.5-vl-7b.json", "--markdown"});
  EXPECT_NE(video.find("| pair | axis | inv_freq |"), std::string::npos) << video;
  EXPECT_NE(print({"8", "--base", "10000", "--pairing", "half", "--head-dim", "64"}).find("your rope"),
            std::string::npos);
}

// Without --rope the rope that `rotary extend` extends, from the length that its makers publish.
TEST_F(Explain, tells_of_the_rope_that_is_extended) {
  const std::string gemma = configs + "gemma-3-27b.json";
  const std::string text = print({"scaling", "--config", gemma});
  EXPECT_NE(text.find("rope 1 of "), std::string::npos) << text;
  EXPECT_NE(text.find("turns in 32768"), std::string::npos) << text;
  EXPECT_NE(print({"scaling", "--config", gemma, "--rope", "0"}).find("rope 0 of "), std::string::npos);
  const std::string qwen = print({"scaling", "--config", configs + "qwen2.5-vl-7b.json"});
  EXPECT_NE(qwen.find("By Qwen the model was trained on 32768"), std::string::npos) << qwen;
}

TEST_F(Explain, every_config_has_its_chapters_in_80_columns) {
  int told = 0;
  for (const auto& entry : std::filesystem::directory_iterator(configs)) {
    const Result result = run({"explain", "--config", entry.path().string()});
    if (result.exit != 0) {
      EXPECT_NE(result.err.find("must have a rope"), std::string::npos) << result.err;
      continue;
    }
    for (const std::string& line : lines_of(result.out)) {
      const bool names_the_file = line.find(entry.path()) != std::string::npos;
      if (names_the_file || line.find_first_not_of('=') == std::string::npos) continue;
      EXPECT_LE(line.size(), 80U) << entry.path() << '\n' << line;
      EXPECT_EQ(line.find("nan"), std::string::npos) << line;
    }
    ++told;
  }
  EXPECT_GT(told, 50);
}

TEST_F(Explain, other_chapters_and_half_a_rope_are_refused) {
  expect_usage({"explain", "cache", "--config", configs + "llama-2-7b.json"});
  expect_usage({"explain", "--list", "--config", configs + "llama-2-7b.json"});
  expect_usage({"explain", "scaling", "--head-dim", "64"});
  expect_usage({"explain", "scaling", "--factor", "4"});
  expect_error({"explain", "scaling", "--config", path("none.json")}, "FILE");
}

TEST_F(Explain, the_commands_that_the_chapters_name_run) {
  int commands = 0;
  const Lines lines = lines_of(print({"all"}));
  for (auto line = lines.begin(); line != lines.end(); ++line) {
    const std::size_t at = line->find("$ rotary ");
    if (at == std::string::npos) continue;
    std::string command = line->substr(at + 9);
    while (command.ends_with('\\')) command.replace(command.size() - 1, 1, *++line);
    std::istringstream stream(command);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    expect_success(words);
    ++commands;
  }
  EXPECT_GE(commands, 2);
}

}  // namespace
}  // namespace rotary::cli_tests
