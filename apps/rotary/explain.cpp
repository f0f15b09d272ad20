// rotary explain: an introduction to RoPE in chapters whose numbers are computed when they are printed. docs/explain
// holds the same chapters as Markdown, with pictures instead of plots in characters.
#include <array>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/rotary/explain/chapters.h"
#include "apps/rotary/explain/page.h"
#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "files/text/io.h"
#include "files/text/nearest.h"
#include "files/text/paths.h"

namespace rotary::cli {

namespace {

struct Chapter {
  const char* id;
  const char* title;
  const char* summary;
  Page (*write)();
};

constexpr std::array<Chapter, 12> all_chapters = {{
    {"turn", "Turning an arrow", "one rotation by hand, and what a dot product sees of it", explain_turn},
    {"distance", "Only the distance counts", "turn both vectors, and where they stand drops out", explain_distance},
    {"pairs", "One pair, two pairs", "how a score changes from distance 1 to distance 1000", explain_pairs},
    {"angles", "The table of angles", "one speed per pair, one row per position", explain_angles},
    {"matrix", "The matrix, and the form without it", "the same numbers with two products per element", explain_matrix},
    {"complex", "Pairs as complex numbers", "a turn is one multiplication", explain_complex},
    {"pairing", "Half or interleaved", "which two elements turn together, and how to go from one to the other",
     explain_pairing},
    {"frequencies", "Why many frequencies", "clock hands: fast ones, slow ones, and all of them together",
     explain_frequencies},
    {"partial", "Turning only a part", "some elements turn, the rest carry content alone", explain_partial},
    {"cache", "The KV cache", "keys are stored turned; decoding equals the full pass", explain_cache},
    {"scaling", "Past the trained length", "what linear, NTK, YaRN and llama3 do to the wavelengths", explain_scaling},
    {"precision", "A long way from zero", "what float32 angles lose, and exact ones keep", explain_precision},
}};

struct Options {
  std::optional<std::string> topic;
  bool list = false;
  bool markdown = false;
  std::string pictures;  // a folder
};

std::string number_of(std::size_t index) { return std::to_string(index + 1); }

std::string file_of(std::size_t index) {
  return (index < 9 ? "0" : "") + number_of(index) + "-" + all_chapters.at(index).id + ".md";
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

std::string contents() {
  const Columns columns({{.right = true, .width = 2}, {.width = 11}, {}});
  std::string out;
  for (std::size_t i = 0; i < all_chapters.size(); ++i) {
    out += columns.line({number_of(i), all_chapters[i].id, all_chapters[i].title}) + '\n';
  }
  return out;
}

// docs/explain/README.md
std::string markdown_index() {
  Page page;
  page.title("RoPE explained");
  page.say(R"(Rotary position embedding from zero, for a reader who knows vectors and a little algebra. Twelve short
      chapters; read them in order. Every number was computed when the page was made.)");
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < all_chapters.size(); ++i) {
    const Chapter& chapter = all_chapters[i];
    rows.push_back({number_of(i), std::string("[") + chapter.title + "](" + file_of(i) + ")", chapter.summary});
  }
  page.table({"", "chapter", "what it shows"}, std::move(rows));
  page.say(R"(The same text in a terminal: `rotary explain`, then `rotary explain 2` or `rotary explain distance`, or
      `rotary explain all`. These files are what `rotary explain TOPIC --markdown` prints, and the pictures what
      `rotary explain --pictures DIR` writes; a test compares them, and judges each number by mpmath (`tools/golden/make_explain_numbers.py`).)");
  return markdown_text(page);
}

Page titled(std::size_t index) {
  const Chapter& chapter = all_chapters.at(index);
  Page page;
  page.title(number_of(index) + ". " + chapter.title);
  page.append(chapter.write());
  return page;
}

std::string markdown_chapter(std::size_t index) {
  const auto link = [](const char* word, std::size_t to) {
    return std::string(word) + ": [" + all_chapters.at(to).title + "](" + file_of(to) + "). ";
  };
  std::string links = index > 0 ? link("Previous", index - 1) : "";
  if (index + 1 < all_chapters.size()) links += link("Next", index + 1);
  Page page = titled(index);
  page.say(links + "[All chapters](README.md).");
  return markdown_text(page);
}

std::string terminal_chapter(std::size_t index) {
  std::string out = terminal_text(titled(index));
  if (index + 1 < all_chapters.size()) {
    const Chapter& next = all_chapters[index + 1];
    out.append("\nNext: rotary explain ").append(next.id).append("  (").append(next.title).append(")\n");
  }
  return out;
}

std::string whole_book(bool markdown) {
  std::string out;
  for (std::size_t i = 0; i < all_chapters.size(); ++i) {
    out.append(i == 0 ? "" : "\n\n").append((markdown ? markdown_text : terminal_text)(titled(i)));
  }
  return out;
}

// What a topic that is none stands for: a misspelt one, or a word of some chapters.
std::string no_topic(const std::string& topic) {
  std::vector<std::string_view> ids;
  std::vector<std::string> having;
  const std::string wanted = lower(topic);
  for (const Chapter& chapter : all_chapters) {
    ids.emplace_back(chapter.id);
    const bool has =
        lower(terminal_text(titled(static_cast<std::size_t>(&chapter - all_chapters.data())))).find(wanted) !=
        std::string::npos;
    if (has && !wanted.empty()) having.emplace_back(chapter.id);
  }
  const std::string sentence = "there is no topic '" + topic + "'";
  if (const std::string_view meant = files::nearest(topic, ids); !meant.empty())
    return sentence + ": did you mean " + std::string(meant) + "?";
  if (having.size() == 1) return sentence + ", but a chapter has the word: rotary explain " + having.front();
  if (!having.empty()) return sentence + ", but these chapters have the word: " + listed(having);
  return sentence + "; the topics are " + listed({ids.begin(), ids.end()}) + ", or all, or a number from 1 to " +
         std::to_string(all_chapters.size());
}

std::size_t chapter_named(const std::string& topic) {
  for (std::size_t i = 0; i < all_chapters.size(); ++i) {
    if (lower(topic) == all_chapters[i].id || topic == number_of(i)) return i;
  }
  throw UsageError(no_topic(topic));
}

// The pictures that the Markdown of a chapter shows: of TOPIC, or of all.
std::string write_pictures(const Options& options) {
  const bool all = !options.topic || lower(*options.topic) == "all";
  const std::size_t only = all ? all_chapters.size() : chapter_named(*options.topic);
  const std::filesystem::path folder = files::path_of(options.pictures);
  std::string wrote;
  for (std::size_t i = 0; i < all_chapters.size(); ++i) {
    if (!all && i != only) continue;
    const Page page = all_chapters[i].write();
    for (const Page::Block& block : page.blocks()) {
      if (block.kind != Page::Kind::picture) continue;
      const std::filesystem::path file = folder / (block.picture.file + ".svg");
      files::write_whole("explain", file, block.picture.svg);
      wrote += "wrote " + printable(files::path_text(file)) + '\n';
    }
  }
  return wrote;
}

std::string text_of(const Options& options) {
  if (!options.pictures.empty()) return write_pictures(options);
  if (options.list) return options.markdown ? markdown_index() : contents();
  if (options.topic && lower(*options.topic) == "all") return whole_book(options.markdown);
  const std::size_t chapter = options.topic ? chapter_named(*options.topic) : 0;
  if (options.markdown) return markdown_chapter(chapter);
  std::string out = terminal_chapter(chapter);
  if (!options.topic) out += "\nAll chapters ('rotary explain all' prints them one after the other):\n" + contents();
  return out;
}

}  // namespace

void add_explain(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, "explain", "RoPE from zero, in twelve short chapters with computed numbers");
  Option topic =
      command
          .option(
              "TOPIC", options->topic,
              "a chapter by its id or number, or all (default: the first); for another word, which chapters have it")
          .type_name("");
  command.flag("--list", options->list, "the chapters: number, id, title").excludes(topic);
  command
      .option(
          "--pictures", options->pictures,
          "write the SVG pictures of the Markdown into that folder, those of TOPIC or of all\nchapters, and print no "
          "chapter")
      .type_name("DIR");
  command.flag("--markdown", options->markdown, "as Markdown: the files of docs/explain");
  command.footer("Chapters:\n" + contents() + "\nBegin with:\n  rotary explain");
  command.runs([options] { std::cout << text_of(*options); });
}

}  // namespace rotary::cli
