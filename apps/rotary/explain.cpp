// rotary explain: an introduction to RoPE in chapters whose numbers are computed when they are printed. docs/explain
// holds the same chapters as Markdown, with pictures instead of plots in characters.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "apps/rotary/explain/chapters.h"
#include "apps/rotary/explain/own.h"
#include "apps/rotary/explain/page.h"
#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "files/text/io.h"
#include "files/text/nearest.h"
#include "files/text/paths.h"
#include "source.h"

namespace rotary::cli {

namespace {

struct Chapter {
  const char* id;
  const char* title;
  const char* summary;
  Page (*write)();
  const char* words;  // that find it as a topic, beside its id; without spaces, hyphens and underscores
};

constexpr std::array<Chapter, 15> all_chapters = {{
    {"turn", "Turning an arrow", "one rotation by hand, and what a dot product sees of it", explain_turn,
     "rotate rotation angle arrow"},
    {"distance", "Only the distance counts", "turn both vectors, and where they stand drops out", explain_distance,
     "relative relativeposition"},
    {"pairs", "One pair, two pairs", "how a score changes from distance 1 to distance 1000", explain_pairs, "pair"},
    {"angles", "The table of angles", "one speed per pair, one row per position", explain_angles,
     "table cos sin position positions"},
    {"matrix", "The matrix, and the form without it", "the same numbers with two products per element", explain_matrix,
     "matrices rotationmatrix"},
    {"complex", "Pairs as complex numbers", "a turn is one multiplication", explain_complex, "polar euler freqscis"},
    {"pairing", "Half or interleaved", "which two elements turn together, and how to go from one to the other",
     explain_pairing, "gptj neox gptneox half interleaved rotatehalf permute permutation layout"},
    {"frequencies", "Why many frequencies", "clock hands: fast ones, slow ones, and all of them together",
     explain_frequencies, "frequency invfreq wavelength wavelengths base theta ropetheta decay"},
    {"partial", "Turning only a part", "some elements turn, the rest carry content alone", explain_partial,
     "rotarydim partialrotaryfactor nope prope partialrotary"},
    {"cache", "The KV cache", "keys are stored turned; decoding equals the full pass", explain_cache,
     "kvcache kv decode decoding positionids cacheposition"},
    {"scaling", "Past the trained length", "what linear, NTK, YaRN and llama3 do to the wavelengths", explain_scaling,
     "yarn ntk llama3 linear ropescaling interpolation positioninterpolation pi context longcontext extend"},
    {"precision", "A long way from zero", "what float32 angles lose, and exact ones keep", explain_precision,
     "float32 tf32 bf16 bfloat16 f16 fp16 float16 fp32 float64 double exact accuracy rounding error"},
    {"axes", "Several axes: images and video",
     "a row and a column, or time, height and width, each with pairs of its own", explain_axes,
     "axis mrope image images video videos vision 2d 3d axial multimodal qwen2vl qwen3vl qwenvl mropesection "
     "ropedeltas"},
    {"deepseek", "DeepSeek's reading order", "read in pairs, written in halves, and only a small part of it",
     explain_latent, "mla interleavedtohalf ropeinterleave latent kimi kimik2 mscale deepseekv2 deepseekv3"},
    {"length", "Scalings that watch the length", "dynamic NTK and LongRoPE, and what they do to a cache",
     explain_growing, "dynamic dynamicntk longrope su phi3 longfactor shortfactor lengths"},
}};

// Terms of the field that a chapter is found by if it alone has them; of other words the chapters are not searched.
constexpr std::string_view technical_terms[] = {
    "attention",   "bloom",       "causal",         "chunk",         "clock",       "conjugate", "cosine",
    "dot",         "dot product", "eviction",       "extrapolation", "fine-tuning", "gemma",     "ggml",
    "gguf",        "head",        "heads",          "key",           "keys",        "llama",     "llama.cpp",
    "mistral",     "moe",         "multiplication", "norm",          "orthogonal",  "phi",       "prefix",
    "product",     "query",       "queries",        "qwen",          "ramp",        "rope",      "score",
    "scores",      "shift",       "sine",           "sliding",       "softmax",     "speed",     "stretch",
    "temperature", "token",       "tokens",         "transformers",  "value",       "values",    "vector",
    "vectors",     "vllm",        "weights",        "window"};

struct Options {
  std::vector<std::string> words;  // the topic may have several: kv cache
  std::optional<std::string> topic;
  bool list = false;
  bool markdown = false;
  std::string pictures;  // a folder
  Source source;
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
  page.say(R"(Rotary position embedding from zero, for a reader who knows vectors and a little algebra. Fifteen short
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

// In small letters, without spaces, hyphens and underscores: "KV cache" is kvcache.
std::string plain_word(const std::string& topic) {
  std::string word = lower(topic);
  std::erase_if(word, [](char c) { return c == ' ' || c == '-' || c == '_'; });
  return word;
}

std::vector<std::string> search_words(const Chapter& chapter) {
  std::istringstream stream(std::string(chapter.id) + ' ' + chapter.words);
  return {std::istream_iterator<std::string>(stream), {}};
}

bool has_word(const std::string& text, const std::string& word) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if (at == 0 || !is_letter(text[at - 1])) return true;
  }
  return false;
}

// The chapters whose text has the topic, which must be a technical term.
std::vector<std::size_t> chapters_having(const std::string& topic) {
  const std::string wanted = lower(topic);
  std::vector<std::size_t> having;
  const auto* const end = std::end(technical_terms);
  const bool is_term = std::find(std::begin(technical_terms), end, wanted) != end;
  for (std::size_t i = 0; is_term && i < all_chapters.size(); ++i) {
    if (has_word(lower(terminal_text(titled(i))), wanted)) having.push_back(i);
  }
  return having;
}

std::string no_topic(const std::string& topic, const std::vector<std::size_t>& having) {
  const std::string sentence = "there is no topic '" + topic + "'";
  std::vector<std::string> ids, words;
  for (const Chapter& chapter : all_chapters) {
    ids.emplace_back(chapter.id);
    for (std::string& word : search_words(chapter)) words.push_back(std::move(word));
  }
  if (!having.empty()) {
    std::vector<std::string> found;
    for (const std::size_t i : having) found.emplace_back(all_chapters[i].id);
    return sentence + ", but these chapters have the word: " + listed(found);
  }
  const std::vector<std::string_view> views(words.begin(), words.end());
  if (const std::string_view meant = files::nearest(plain_word(topic), views); !meant.empty())
    return sentence + ": did you mean " + std::string(meant) + "?";
  return sentence + "; the topics are " + listed(ids) + ", or all, or a number from 1 to " +
         std::to_string(all_chapters.size());
}

// By its id or number, its title, one of its search words, or a technical term that no other chapter has.
std::size_t chapter_named(const std::string& topic) {
  const std::string word = plain_word(topic);
  for (std::size_t i = 0; i < all_chapters.size(); ++i) {
    const std::vector<std::string> words = search_words(all_chapters[i]);
    if (topic == number_of(i) || word == plain_word(all_chapters[i].title) ||
        std::find(words.begin(), words.end(), word) != words.end())
      return i;
  }
  const std::vector<std::size_t> having = chapters_having(topic);
  if (having.size() == 1) return having.front();
  throw UsageError(no_topic(topic, having));
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

// Whether an option speaks of a rope; alone, some of them do not name one, and are refused.
bool names_rope(const Source& source) {
  const bool word = !source.config.empty() || !source.pairing.empty() || !source.inv_freq.empty() ||
                    !source.weights.empty() || !source.scaling.empty();
  const bool number = source.base || source.head_dim || source.rotary_dim || source.first || source.rope ||
                      source.length || source.factor || source.trained_length;
  return word || number;
}

// Chapters 8 and 11 for the rope that the options name.
std::string own_chapters(const Options& options) {
  struct Told {
    std::size_t chapter;
    Page (*write)(const Own&);
  };
  const std::vector<Told> both = {{chapter_named("frequencies"), explain_own_frequencies},
                                  {chapter_named("scaling"), explain_own_scaling}};
  const bool all = !options.topic || lower(*options.topic) == "all";
  const std::size_t only = all ? all_chapters.size() : chapter_named(*options.topic);
  if (options.list || !options.pictures.empty())
    throw UsageError("--config tells chapters: without --list and --pictures");
  check_source_without_tensor(options.source);
  const Model model = read_model(options.source, options.source.head_dim.value_or(0));
  const Own own = own_rope(options.source, model);
  std::string out;
  for (const Told& told : both) {
    if (!all && only != told.chapter) continue;
    Page page;
    const std::string name = own.name.empty() ? "your rope" : printable(own.name);
    page.title(number_of(told.chapter) + ". " + all_chapters.at(told.chapter).title + ": " + name);
    page.append(told.write(own));
    out.append(out.empty() ? "" : "\n\n").append((options.markdown ? markdown_text : terminal_text)(page));
  }
  if (out.empty())
    throw UsageError("of your own model the chapters frequencies and scaling are told, not '" + *options.topic + "'");
  return out;
}

std::string text_of(const Options& options) {
  if (names_rope(options.source)) return own_chapters(options);
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
  Command command(app, "explain", "RoPE from zero, in fifteen short chapters with computed numbers");
  Option topic = command
                     .option("TOPIC", options->words,
                             "a chapter by its id or number, or a word of it such as yarn, gpt-j or kv-cache; or "
                             "all\n(default: the first)")
                     .type_name("");
  command.flag("--list", options->list, "the chapters: number, id, title").excludes(topic);
  command
      .option(
          "--pictures", options->pictures,
          "write the SVG pictures of the Markdown into that folder, those of TOPIC or of all\nchapters, and print no "
          "chapter")
      .type_name("DIR");
  command.flag("--markdown", options->markdown, "as Markdown: the files of docs/explain");
  add_source_options(command, options->source, "--config");
  add_head_dim_option(command, options->source);
  add_rope_option(command, options->source);
  command.added("--config")
      .help(
          "tells chapters 8 and 11, frequencies and scaling, for your own model: its config.json or\n"
          "params.json, its folder, or a .gguf file; the options below are those of 'rotary inspect'");
  command.footer(
      "Chapters:\n" + contents() +
      "\nBegin with:\n  rotary explain\n  rotary explain yarn\n  rotary explain scaling --config Llama-3.1-8B/");
  command.runs([options] {
    for (const std::string& word : options->words) {
      options->topic = options->topic ? *options->topic + ' ' + word : word;
    }
    std::cout << text_of(*options);
  });
}

}  // namespace rotary::cli
