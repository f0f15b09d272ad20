// rotary explain: prints the chapters of docs/explain, which are built into the program.
#include <algorithm>
#include <cctype>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "apps/rotary/explain/page.h"
#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/system.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "explain_files.h"  // made by CMake: explain_files, the name and text of each of docs/explain; explain_topics
#include "files/text/io.h"
#include "files/text/nearest.h"
#include "files/text/paths.h"
#include "source.h"

namespace rotary::cli {

namespace {

struct ExplainOptions {
  std::vector<std::string> words;  // the topic may have several: kv cache
  std::optional<std::string> topic;
  bool list = false;
  bool markdown = false;
  bool json = false;
  std::string pictures;  // a folder
  Source source;
};

// ---- the chapters: NN-ID.md, which begins with "# N. TITLE" and ends with links ----

struct Chapter {
  std::string number, id, title;
  std::string_view file;  // without its extension
  std::string_view text;
  std::vector<std::string> words;  // that find it as a topic; without spaces, hyphens and underscores
};

// The lines of data/explain_topics.txt that begin with that key, behind it.
std::vector<std::string> topics_of(const std::string& key) {
  std::istringstream lines(explain_topics);
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(key + ": ")) found.push_back(line.substr(key.size() + 2));
  return found;
}

const std::vector<Chapter>& all_chapters() {
  static const std::vector<Chapter> chapters = [] {
    std::vector<Chapter> all;
    for (const auto& [name, text] : explain_files) {
      if (!name.ends_with(".md") || name == "README.md") continue;
      const std::size_t title = text.find(". ") + 2;
      Chapter chapter{std::to_string(all.size() + 1),
                      std::string(name.substr(3, name.size() - 6)),
                      std::string(text.substr(title, text.find('\n') - title)),
                      name.substr(0, name.size() - 3),
                      text,
                      {}};
      std::istringstream words(chapter.id + " " + topics_of(chapter.id).at(0));
      chapter.words.assign(std::istream_iterator<std::string>(words), {});
      all.push_back(std::move(chapter));
    }
    return all;
  }();
  return chapters;
}

std::string contents() {
  const Columns columns({{.right = true, .width = 2}, {.width = 11}, {}});
  std::string text;
  for (const Chapter& chapter : all_chapters())
    text += columns.line({chapter.number, chapter.id, chapter.title}) + "\n";
  return text;
}

// As Markdown, or wrapped for the terminal.
std::string shown(std::string_view markdown, bool as_markdown) {
  const std::size_t width = std::clamp<std::size_t>(terminal_columns().value_or(80), 40, 100);
  return as_markdown ? std::string(markdown) : terminal_text(markdown, width);
}

std::string_view without_links(const Chapter& chapter) {
  return chapter.text.substr(0, chapter.text.rfind("\n\n") + 1);
}

std::string terminal_chapter(std::size_t index) {
  std::string text = shown(without_links(all_chapters()[index]), false);
  if (index + 1 < all_chapters().size()) {
    const Chapter& next = all_chapters()[index + 1];
    text += "\nNext: rotary explain " + next.id + "  (" + next.title + ")\n";
  }
  return text;
}

std::string whole_book(bool markdown) {
  std::string text;
  for (const Chapter& chapter : all_chapters())
    text += (text.empty() ? "" : "\n\n") + shown(without_links(chapter), markdown);
  return text;
}

// ---- topics ----

// In small letters, without spaces, hyphens and underscores: "KV cache" is kvcache.
std::string plain_word(const std::string& topic) {
  std::string word = lower(topic);
  std::erase_if(word, [](char c) { return c == ' ' || c == '-' || c == '_'; });
  return word;
}

bool has_word(const std::string& text, const std::string& word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if (at == 0 || std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0) return true;
  return false;
}

// The chapters whose text has the topic, which must be a technical term.
std::vector<std::size_t> chapters_having(const std::string& topic) {
  const std::string wanted = lower(topic);
  std::vector<std::size_t> having;
  const std::vector<std::string> terms = topics_of("term");
  if (std::find(terms.begin(), terms.end(), wanted) == terms.end()) return having;
  for (std::size_t i = 0; i < all_chapters().size(); ++i)
    if (has_word(lower(terminal_text(without_links(all_chapters()[i]), 80)), wanted)) having.push_back(i);
  return having;
}

std::string no_topic(const std::string& topic, const std::vector<std::size_t>& having) {
  const std::string sentence = "there is no topic '" + topic + "'";
  std::string ids, found;
  std::vector<std::string_view> words;
  for (const Chapter& chapter : all_chapters()) {
    ids += (ids.empty() ? "" : ", ") + chapter.id;
    words.insert(words.end(), chapter.words.begin(), chapter.words.end());
  }
  for (const std::size_t i : having) found += (found.empty() ? "" : ", ") + all_chapters()[i].id;
  if (!having.empty()) return sentence + ", but these chapters have the word: " + found;
  if (const std::string_view meant = files::nearest(plain_word(topic), words); !meant.empty())
    return sentence + ": did you mean " + std::string(meant) + "?";
  return sentence + "; the topics are " + ids + ", or all, or a number from 1 to " +
         std::to_string(all_chapters().size());
}

// By its id or number, its title, one of its words, or a technical term that no other chapter has.
std::size_t chapter_named(const std::string& topic) {
  const std::string word = plain_word(topic);
  for (std::size_t i = 0; i < all_chapters().size(); ++i) {
    const Chapter& chapter = all_chapters()[i];
    if (topic == chapter.number || word == plain_word(chapter.title) ||
        std::find(chapter.words.begin(), chapter.words.end(), word) != chapter.words.end())
      return i;
  }
  const std::vector<std::size_t> having = chapters_having(topic);
  if (having.size() == 1) return having.front();
  throw UsageError(no_topic(topic, having));
}

// The chapter of TOPIC; nullptr for all.
const Chapter* chosen_chapter(const ExplainOptions& options) {
  if (!options.topic || lower(*options.topic) == "all") return nullptr;
  return &all_chapters()[chapter_named(*options.topic)];
}

// The pictures that the Markdown of a chapter shows: of TOPIC, or of all.
std::string write_pictures(const ExplainOptions& options) {
  const Chapter* const only = chosen_chapter(options);
  std::string wrote;
  for (const auto& [name, text] : explain_files) {
    const std::string link = "](" + std::string(name) + ")";
    if (!name.ends_with(".svg") || (only != nullptr && only->text.find(link) == std::string_view::npos)) continue;
    const std::filesystem::path file = files::path_of(options.pictures) / name;
    files::write_whole("explain", file, std::string(text));
    wrote += "wrote " + printable(files::path_text(file)) + "\n";
  }
  return wrote;
}

// A chapter, or without text its place in the list.
nlohmann::ordered_json json_of(const Chapter& chapter, bool with_text) {
  nlohmann::ordered_json json = {{"number", std::stoi(chapter.number)}, {"id", chapter.id}, {"title", chapter.title}};
  if (with_text) json["markdown"] = std::string(chapter.text);
  return json;
}

void print_json(const ExplainOptions& options, const std::string& text) {
  const bool own = !options.source.config.empty() || has_rope_options(options.source);
  if (own || !options.pictures.empty()) {
    std::cout << versioned({{own ? "markdown" : "wrote", text}}) << '\n';
    return;
  }
  const Chapter* const only = options.list || !options.topic ? nullptr : chosen_chapter(options);
  nlohmann::ordered_json chapters = nlohmann::ordered_json::array();
  for (const Chapter& chapter : all_chapters())
    if (only == nullptr || only == &chapter) chapters.push_back(json_of(chapter, options.topic.has_value()));
  std::cout << versioned({{"chapters", std::move(chapters)}}) << '\n';
}

// ---- of the reader's own model ----

std::string own_chapters(const ExplainOptions& options) {
  const Chapter* const only = chosen_chapter(options);
  if (options.list || !options.pictures.empty())
    throw UsageError("--config tells chapters: without --list and --pictures");
  check_source_without_tensor(options.source);
  const OwnChapters own = explain_own(options.source);
  const std::string name = options.source.config.empty() ? "your rope" : printable(options.source.config);
  std::string text;
  for (const auto& [id, page] : {std::pair("frequencies", &own.frequencies), std::pair("scaling", &own.scaling)}) {
    const Chapter& chapter = all_chapters()[chapter_named(id)];
    if (only != nullptr && only != &chapter) continue;
    text += (text.empty() ? "" : "\n\n") +
            shown("# " + chapter.number + ". " + chapter.title + ": " + name + "\n\n" + *page, options.markdown);
  }
  if (text.empty())
    throw UsageError("of your own model the chapters frequencies and scaling are told, not '" + *options.topic + "'");
  return text;
}

std::string text_of(const ExplainOptions& options) {
  if (!options.source.config.empty() || has_rope_options(options.source)) return own_chapters(options);
  if (!options.pictures.empty()) return write_pictures(options);
  if (options.list && !options.markdown) return contents();
  if (options.list) {
    const auto readme = [](const auto& file) { return file.first == "README.md"; };
    return std::string(std::find_if(std::begin(explain_files), std::end(explain_files), readme)->second);
  }
  if (options.topic && chosen_chapter(options) == nullptr) return whole_book(options.markdown);
  const std::size_t chapter = options.topic ? chapter_named(*options.topic) : 0;
  if (options.markdown) return std::string(all_chapters()[chapter].text);
  std::string text = terminal_chapter(chapter);
  if (!options.topic) text += "\nAll chapters ('rotary explain all' prints them one after the other):\n" + contents();
  return text;
}

}  // namespace

void add_explain(CLI::App& app) {
  auto options = std::make_shared<ExplainOptions>();
  Command command(app, "explain");
  std::vector<std::string> topics = {"all"};
  for (const Chapter& chapter : all_chapters()) topics.push_back(chapter.id);
  command.option("TOPIC", options->words, topics);
  command.option("--list", options->list);
  command.option("--pictures", options->pictures);
  command.option("--markdown", options->markdown);
  command.option("--json", options->json);
  add_source_options(command, options->source, "--config");
  add_head_dim_option(command, options->source);
  add_rope_option(command, options->source);
  command.footer(
      "Chapters:\n" + contents() +
      "\nBegin with:\n  rotary explain\n  rotary explain yarn\n  rotary explain scaling --config Llama-3.1-8B/");
  command.runs([options] {
    for (const std::string& word : options->words)
      options->topic = options->topic ? *options->topic + ' ' + word : word;
    options->markdown = options->markdown || options->json;
    const std::string text = text_of(*options);
    if (options->json) return print_json(*options, text);
    std::cout << text;
  });
}

}  // namespace rotary::cli
