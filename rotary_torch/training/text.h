// Text for character models: the vocabulary, and the split into training and validation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace rotary::embedded {
std::string_view smoke_text() noexcept;  // the text of the smoke preset, smoke.txt
}

namespace rotary_torch {

// One id per Unicode code point, in rising order of code points; Tiny Shakespeare has 65.
class Vocabulary {
 public:
  static Vocabulary of(std::string_view utf8);                      // throws TEXT if it is not UTF-8
  static Vocabulary read(const std::filesystem::path& vocab_json);  // {"\n": 0, " ": 1, ...}; throws JSON, FORMAT
  void write(const std::filesystem::path& vocab_json) const;        // atomically

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(characters_.size()); }
  at::Tensor encode(std::string_view utf8) const;  // int64 [tokens]; throws TEXT naming the character it lacks
  std::string decode(std::int64_t id) const;       // one character in UTF-8; throws VALUE

 private:
  std::vector<std::string> characters_;  // in UTF-8, rising: bytes rise as code points do
};

std::string read_text(const std::filesystem::path&);  // throws FILE
using rotary::embedded::smoke_text;
// 16 hexadecimal digits (FNV-1a), by which a resumed run knows its text again.
std::string text_hash(std::string_view text);

struct Corpus {
  Vocabulary vocabulary;
  at::Tensor train;       // int64 [tokens], the first 90 %
  at::Tensor validation;  // the rest
};
// Throws TEXT if a part is shorter than block + 1.
Corpus corpus(std::string_view utf8, std::int64_t block);

}  // namespace rotary_torch
