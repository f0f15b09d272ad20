#include "rotary_torch/training/text.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {

namespace {

using rotary::Code;
namespace files = rotary::files;

constexpr Refusal refuse{"text"}, refuse_vocabulary{"vocabulary"};

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  characters.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); i += characters.back().size()) {
    const files::Character point = files::first_character(text.substr(i));
    if (point.length == 0 || point.code == 0) {
      refuse(Code::TEXT, "a text must be UTF-8 without a byte 0 but byte ", i, " begins with ",
             files::in_quotes(text.substr(i, 1)));
    }
    characters.push_back(text.substr(i, point.length));
  }
  return characters;
}

}  // namespace

Vocabulary Vocabulary::of(std::string_view utf8) {
  const std::vector<std::string_view> all = characters_of(utf8);
  const std::set<std::string_view> characters(all.begin(), all.end());
  Vocabulary vocabulary;
  vocabulary.characters_.assign(characters.begin(), characters.end());
  return vocabulary;
}

Vocabulary Vocabulary::read(const std::filesystem::path& vocab_json) {
  const files::Json json = files::parse_json(read_text(vocab_json));
  if (!json.is_object() || json.empty()) {
    refuse_vocabulary(Code::FORMAT, vocab_json.string(),
                      ": must be an object {\"a\": 0, \"b\": 1, ...} with a character or more");
  }
  Vocabulary vocabulary;
  for (const auto& [key, id] : json.items()) {  // rising by bytes
    const files::Character point = files::first_character(key);
    const bool follows = !key.empty() && point.length == key.size() && point.code != 0 && id == vocabulary.size();
    if (!follows) {
      refuse_vocabulary(Code::FORMAT, vocab_json.string(),
                        ": ids must be 0, 1, 2, ... of single characters, rising, but ", files::in_quotes(key), " has ",
                        id);
    }
    vocabulary.characters_.push_back(key);
  }
  return vocabulary;
}

void Vocabulary::write(const std::filesystem::path& vocab_json) const {
  std::string text = "{";
  for (std::int64_t id = 0; id < size(); ++id)
    text += (id == 0 ? "\n  " : ",\n  ") + files::Json(decode(id)).dump() + ": " + std::to_string(id);
  files::write_whole("vocabulary", vocab_json, text + "\n}\n");
}

at::Tensor Vocabulary::encode(std::string_view utf8) const {
  const std::vector<std::string_view> all = characters_of(utf8);
  at::Tensor ids = at::empty({static_cast<std::int64_t>(all.size())}, at::kLong);
  auto* out = ids.data_ptr<std::int64_t>();
  for (const std::string_view character : all) {
    const auto place = std::lower_bound(characters_.begin(), characters_.end(), character);
    if (place == characters_.end() || *place != character) {
      refuse(Code::TEXT, "every character must be one of the vocabulary's ", size(), " but got ",
             files::in_quotes(character));
    }
    *out++ = place - characters_.begin();
  }
  return ids;
}

std::string Vocabulary::decode(std::int64_t id) const {
  refuse_vocabulary.unless(id >= 0 && id < size(), Code::VALUE, "an id must be in 0..", size() - 1, " but got ", id);
  return characters_[static_cast<std::size_t>(id)];
}

std::string read_text(const std::filesystem::path& path) { return files::InputFile("text", path).text(); }

std::string text_hash(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  std::array<char, 17> word{};
  std::snprintf(word.data(), word.size(), "%016llx", static_cast<unsigned long long>(hash));
  return word.data();
}

Corpus corpus(std::string_view utf8, std::int64_t block) {
  Corpus parts{Vocabulary::of(utf8), {}, {}};
  const at::Tensor ids = parts.vocabulary.encode(utf8);
  const std::int64_t tokens = ids.numel(), split = tokens * 9 / 10;
  refuse.unless(split > block && tokens - split > block, Code::TEXT,
                "the last tenth of a text must be longer than a block of ", block, " characters (at least ",
                10 * block + 1, " in all) but got ", tokens);
  parts.train = ids.narrow(0, 0, split);
  parts.validation = ids.narrow(0, split, tokens - split);
  return parts;
}

}  // namespace rotary_torch
