// Runs a fuzz body without libFuzzer:
//   replay CORPUS ROUNDS [SEED]         the seeds and the corpus, then ROUNDS random mutations of the seeds
//   replay CORPUS --write-seeds FOLDER  the seeds, the corpus and the words, for libFuzzer
//   replay --file FILE...               these inputs, as libFuzzer saved them
// CORPUS: a file with an input in hex on each line, as run() prints one (scripts/fuzz.sh); it may be absent.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <random>

#include "fuzz.h"
#include "json_changes.h"

namespace {

using namespace rotary;

// The seeds and the corpus.
std::vector<std::string> inputs(const std::string& corpus_path) {
  std::vector<std::string> all = fuzz::seeds();
  std::ifstream corpus(corpus_path);
  for (std::string line; std::getline(corpus, line);) {
    std::string& input = all.emplace_back();
    for (std::size_t i = 0; i < line.size(); i += 2)
      input += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
  }
  return all;
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed), seeds_(fuzz::seeds()), words_(fuzz::words()) {}

  std::string next() {
    std::string text = pick(seeds_);
    for (std::size_t i = 1 + below(4); i > 0; --i) mutate(text);
    return text;
  }

 private:
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }
  const std::string& pick(const std::vector<std::string>& from) { return from[below(from.size())]; }
  char byte() { return static_cast<char>(random_()); }

  void mutate(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = below(std::min<std::size_t>(text.size() - at, 16) + 1);
    switch (below(10)) {
      case 0:
        text.insert(at, 1, byte());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(below(text.size() + 1), text.substr(at, length));
        break;
      case 3:
        text.insert(at, pick(words_));
        break;
      case 4:
        text.replace(at, length, pick(words_));
        break;
      case 5:
        text.resize(at);
        break;
      case 6: {
        const std::string& other = pick(seeds_);
        text = text.substr(0, at) + other.substr(below(other.size() + 1));
        break;
      }
      case 7:
      case 8:
        text = fuzz::changed(text, pick(seeds_), random_());
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
    }
  }

  std::mt19937_64 random_;
  std::vector<std::string> seeds_;
  std::vector<std::string> words_;
};

// Returns false, and prints to stderr, if the body found something.
bool run(const std::string& input, const std::string& what) {
  if (const char* last = std::getenv("ROTARY_FUZZ_LAST")) std::ofstream(last, std::ios::binary) << input;
  try {
    fuzz::one(input);
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\ninput, %zu bytes: ", what.c_str(), error.what(), input.size());
    for (const char c : input) std::fprintf(stderr, "%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    std::fputc('\n', stderr);
    return false;
  }
}

int write_seeds(const std::string& corpus, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  int i = 0;
  for (const std::string& seed : inputs(corpus)) {
    std::ofstream(folder / ("seed" + std::to_string(i++)), std::ios::binary) << seed;
  }
  std::ofstream dictionary(folder.string() + ".dict");
  for (const std::string& word : fuzz::words()) {
    dictionary << '"';
    for (const char c : word) {
      char escape[5];
      std::snprintf(escape, sizeof escape, "\\x%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      dictionary << escape;
    }
    dictionary << "\"\n";
  }
  return dictionary.good() ? 0 : 1;
}

int replay_files(const std::vector<std::string>& paths) {
  bool well = true;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    well = run(std::string(std::istreambuf_iterator<char>(file), {}), path) && well;
  }
  return well ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() >= 2 && words[0] == "--file") return replay_files({words.begin() + 1, words.end()});
  fuzz::require(words.size() >= 2, "replay needs a corpus and a number of rounds");
  if (words[1] == "--write-seeds") return write_seeds(words[0], words.at(2));
  const long rounds = std::strtol(words[1].c_str(), nullptr, 10);
  const std::uint64_t seed = words.size() < 3 ? 1 : std::strtoull(words[2].c_str(), nullptr, 10);
  for (const std::string& input : inputs(words[0])) {
    if (!run(input, "a seed")) return 1;
  }
  Mutator mutator(seed);
  for (long round = 0; round < rounds; ++round) {
    if (!run(mutator.next(), "round " + std::to_string(round) + " of seed " + std::to_string(seed))) return 1;
  }
  std::printf("%ld mutations, no finding\n", rounds);
  return 0;
}
