#include "rotary_torch/training/text.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
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

std::string utf8(char32_t character) {
  const auto tail = [character](int shift) { return static_cast<char>(0x80 | (character >> shift & 0x3F)); };
  if (character < 0x80) return {static_cast<char>(character)};
  if (character < 0x800) return {static_cast<char>(0xC0 | character >> 6), tail(0)};
  if (character < 0x10000) return {static_cast<char>(0xE0 | character >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | character >> 18), tail(12), tail(6), tail(0)};
}

std::string in_unicode(char32_t character) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  std::string name = "U+";
  for (int shift = character > 0xFFFFF ? 20 : character > 0xFFFF ? 16 : 12; shift >= 0; shift -= 4)
    name += hex[character >> shift & 15];
  return name + " (" + files::in_quotes(utf8(character)) + ")";
}

std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> points;
  points.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const files::Character point = files::first_character(text.substr(i));
    if (point.length == 0) {
      refuse(Code::TEXT, "a text must be UTF-8 but byte ", i, " begins with ", files::in_quotes(text.substr(i, 1)));
    }
    if (point.code == 0) refuse(Code::TEXT, "a text must not hold a byte 0 but byte ", i, " is one");
    points.push_back(point.code);
    i += point.length;
  }
  return points;
}

at::Tensor ids_of(const std::vector<char32_t>& characters, const std::vector<char32_t>& points) {
  at::Tensor ids = at::empty({static_cast<std::int64_t>(points.size())}, at::kLong);
  auto* out = ids.data_ptr<std::int64_t>();
  for (const char32_t point : points) {
    const auto place = std::lower_bound(characters.begin(), characters.end(), point);
    if (place == characters.end() || *place != point) {
      refuse(Code::TEXT, "every character must be one of the vocabulary's ", characters.size(), " but got ",
             in_unicode(point));
    }
    *out++ = place - characters.begin();
  }
  return ids;
}

}  // namespace

Vocabulary Vocabulary::of(std::string_view utf8) {
  Vocabulary vocabulary;
  vocabulary.characters_ = code_points(utf8);
  std::vector<char32_t>& characters = vocabulary.characters_;
  std::sort(characters.begin(), characters.end());
  characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
  return vocabulary;
}

Vocabulary Vocabulary::read(const std::filesystem::path& vocab_json) {
  const auto refuse_file = [&vocab_json](const auto&... rule) {
    refuse_vocabulary(Code::FORMAT, vocab_json.string(), ": ", rule...);
  };
  const files::Json json = files::parse_json(read_text(vocab_json));
  if (!json.is_object() || json.empty())
    refuse_file("must be an object {\"a\": 0, \"b\": 1, ...} with a character or more");
  std::vector<std::pair<std::int64_t, char32_t>> by_id;
  for (const auto& [key, id] : json.items()) {
    const files::Character point = files::first_character(key);
    if (key.empty() || point.length != key.size() || point.code == 0)
      refuse_file("a key must be one character but got ", files::in_quotes(key));
    if (!id.is_number_integer()) refuse_file("the id of ", in_unicode(point.code), " must be an integer");
    by_id.emplace_back(id.get<std::int64_t>(), point.code);
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

at::Tensor Vocabulary::encode(std::string_view utf8) const { return ids_of(characters_, code_points(utf8)); }

std::string Vocabulary::decode(std::int64_t id) const {
  if (id < 0 || id >= size()) {
    refuse_vocabulary(Code::VALUE, "an id must be in 0..", size() - 1, " but got ", id);
  }
  return utf8(characters_[static_cast<std::size_t>(id)]);
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
  constexpr std::string_view digits = "0123456789abcdef";
  std::string word;
  for (int shift = 60; shift >= 0; shift -= 4) word += digits[hash >> shift & 15];
  return word;
}

Corpus corpus(std::string_view utf8, std::int64_t block) {
  const std::vector<char32_t> points = code_points(utf8);
  const auto tokens = static_cast<std::int64_t>(points.size());
  const std::int64_t split = tokens * 9 / 10;
  if (split <= block || tokens - split <= block) {
    refuse(Code::TEXT, "the last tenth of a text must be longer than a block of ", block, " characters (at least ",
           10 * block + 1, " in all) but got ", tokens);
  }
  Corpus parts;
  parts.vocabulary = Vocabulary::of(utf8);
  const at::Tensor ids = parts.vocabulary.encode(utf8);
  parts.train = ids.narrow(0, 0, split);
  parts.validation = ids.narrow(0, split, tokens - split);
  return parts;
}

}  // namespace rotary_torch
