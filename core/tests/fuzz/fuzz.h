// A fuzz target is a body and seeds. Two programs run it: libfuzzer.cpp (clang, -DROTARY_FUZZ=ON) searches by coverage,
// replay.cpp (any compiler, an ordinary test) mutates the seeds at random.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/error.h"

namespace rotary::fuzz {

std::vector<std::string> seeds();
std::vector<std::string> words();    // to insert in mutations
void one(const std::string& input);  // any exception is a finding

// The words of a text, which blanks part, and others.
inline std::vector<std::string> words_of(const char* text, std::vector<std::string> others = {}) {
  std::istringstream stream(text);
  std::copy(std::istream_iterator<std::string>(stream), {}, std::back_inserter(others));
  return others;
}

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

// Requires that a refusal is one printable line that begins with `begin`, under one of these codes.
inline void require_refusal(Code code, std::string_view sentence, std::string_view begin,
                            std::initializer_list<std::string_view> codes) {
  bool known = false;
  for (const std::string_view one : codes) known = known || rotary::name(code) == one;
  require(known, "unexpected code " + std::string(rotary::name(code)) + ": " + std::string(sentence));
  require(sentence.starts_with(begin), "unexpected operation: " + std::string(sentence));
  require(sentence.size() < 2000, "a sentence of " + std::to_string(sentence.size()) + " bytes");
  for (const char c : sentence)
    require(static_cast<unsigned char>(c) >= 0x20, "not one line: " + std::string(sentence));
}
inline void require_refusal(const Error& error, std::string_view begin, std::initializer_list<std::string_view> codes) {
  require_refusal(error.code(), error.what(), begin, codes);
}

// A regular file in memory.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view text) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0 && write(descriptor_, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
            "memfd failed");
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// Small numbers taken from the input; always 0 after its end.
class Choices {
 public:
  explicit Choices(std::string_view input) : rest_(input) {}
  int below(int bound) {
    if (rest_.empty()) return 0;
    const int value = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return value % bound;
  }
  bool coin() { return below(2) == 1; }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace rotary::fuzz
