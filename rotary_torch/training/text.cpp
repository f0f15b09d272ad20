#include "rotary_torch/training/text.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {

namespace {

using rotary::Code;
namespace files = rotary::files;

constexpr Refusal refuse{"text"};
constexpr Refusal refuse_vocabulary{"vocabulary"};

std::string in_unicode(std::string_view character) {
  std::array<char, 16> name{};
  std::snprintf(name.data(), name.size(), "U+%04X", static_cast<unsigned>(files::first_character(character).code));
  return name.data() + (" (" + files::in_quotes(character) + ")");
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  characters.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); i += characters.back().size()) {
    const files::Character point = files::first_character(text.substr(i));
    if (point.length == 0) {
      refuse(Code::TEXT, "a text must be UTF-8 but byte ", i, " begins with ", files::in_quotes(text.substr(i, 1)));
    }
    if (point.code == 0) refuse(Code::TEXT, "a text must not hold a byte 0 but byte ", i, " is one");
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
  const auto refuse_file = [&vocab_json](const auto&... rule) {
    refuse_vocabulary(Code::FORMAT, vocab_json.string(), ": ", rule...);
  };
  const files::Json json = files::parse_json(read_text(vocab_json));
  if (!json.is_object() || json.empty())
    refuse_file("must be an object {\"a\": 0, \"b\": 1, ...} with a character or more");
  std::vector<std::pair<std::int64_t, std::string>> by_id;
  for (const auto& [key, id] : json.items()) {
    const files::Character point = files::first_character(key);
    if (key.empty() || point.length != key.size() || point.code == 0)
      refuse_file("a key must be one character but got ", files::in_quotes(key));
    if (!id.is_number_integer()) refuse_file("the id of ", in_unicode(key), " must be an integer");
    by_id.emplace_back(id.get<std::int64_t>(), key);
  }
  std::sort(by_id.begin(), by_id.end());
  Vocabulary vocabulary;
  for (const auto& [id, character] : by_id) {
    if (id != vocabulary.size()) refuse_file("ids must be 0, 1, 2, ... but ", in_unicode(character), " has ", id);
    if (id > 0 && character < vocabulary.characters_.back())
      refuse_file("ids must rise with the characters but ", in_unicode(character), " has ", id);
    vocabulary.characters_.push_back(character);
  }
  return vocabulary;
}

void Vocabulary::write(const std::filesystem::path& vocab_json) const {
  std::string text = "{";
  for (std::int64_t id = 0; id < size(); ++id)
    text += (id == 0 ? "\n  " : ",\n  ") + files::Json(decode(id)).dump() + ": " + std::to_string(id);
  text += "\n}\n";
  files::write_whole("vocabulary", vocab_json, text);
}

at::Tensor Vocabulary::encode(std::string_view utf8) const {
  const std::vector<std::string_view> all = characters_of(utf8);
  at::Tensor ids = at::empty({static_cast<std::int64_t>(all.size())}, at::kLong);
  auto* out = ids.data_ptr<std::int64_t>();
  for (const std::string_view character : all) {
    const auto place = std::lower_bound(characters_.begin(), characters_.end(), character);
    if (place == characters_.end() || *place != character) {
      refuse(Code::TEXT, "every character must be one of the vocabulary's ", size(), " but got ",
             in_unicode(character));
    }
    *out++ = place - characters_.begin();
  }
  return ids;
}

std::string Vocabulary::decode(std::int64_t id) const {
  if (id < 0 || id >= size()) {
    refuse_vocabulary(Code::VALUE, "an id must be in 0..", size() - 1, " but got ", id);
  }
  return characters_[static_cast<std::size_t>(id)];
}

std::string Vocabulary::decode(const at::Tensor& ids) const {
  const at::Tensor flat = ids.to(at::kCPU, at::kLong).contiguous();
  std::string text;
  for (std::int64_t i = 0; i < flat.numel(); ++i) text += decode(flat.data_ptr<std::int64_t>()[i]);
  return text;
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
  const std::int64_t tokens = ids.numel();
  const std::int64_t split = tokens * 9 / 10;
  refuse.unless(split > block && tokens - split > block, Code::TEXT,
                "the last tenth of a text must be longer than a block of ", block, " characters (at least ",
                10 * block + 1, " in all) but got ", tokens);
  parts.train = ids.narrow(0, 0, split);
  parts.validation = ids.narrow(0, split, tokens - split);
  return parts;
}

}  // namespace rotary_torch
