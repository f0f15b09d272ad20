// Regular files: read in exact ranges, written whole or not at all. Every failure throws FILE and names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "values/fail.h"

namespace rotary::files {

using Sink = std::function<void(std::span<const std::byte>)>;
inline constexpr std::size_t piece_bytes = std::size_t{1} << 20;

// A file open for reading. Folders, pipes and devices are refused. operation is the word in brackets in error sentences
// and must outlive the file.
class InputFile {
 public:
  InputFile(const char* operation, std::filesystem::path path);
  // Bytes in memory that are read as a file; path is for error sentences.
  InputFile(const char* operation, std::filesystem::path path, std::vector<std::byte> whole);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }  // at the time of opening
  // Bytes [offset, offset + out.size()); throws if the file has become shorter. May be called from several threads.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  void copy(std::uint64_t begin, std::uint64_t end, const Sink&) const;  // bytes [begin, end), in pieces
  std::string text() const;                                              // the whole file

 private:
  const char* operation_;
  std::filesystem::path path_;
  int descriptor_ = -1;  // -1: memory_ holds the bytes
  std::uint64_t size_ = 0;
  std::vector<std::byte> memory_;
};

// Writes the parts in order to a temporary file in the same folder, then fsync and rename: at any moment path is the
// old file or the whole new one, and a failure leaves nothing else. A symbolic link is followed and kept; the new file
// has the permissions of the old one.
void write_whole(const char* operation, const std::filesystem::path& path,
                 std::span<const std::span<const std::byte>> parts);

// Writes bytes that are produced piece by piece: produce is called once and calls the sink for each piece.
void write_whole(const char* operation, const std::filesystem::path& path,
                 const std::function<void(const Sink&)>& produce);

void write_whole(const char* operation, const std::filesystem::path& path, std::string_view text);
// Writes a file that gets another name later, such as a file in a folder that is renamed when it is complete: error
// sentences name `shown`.
void write_whole_as(const char* operation, const std::filesystem::path& path, const std::filesystem::path& shown,
                    const std::function<void(const Sink&)>& produce);

std::span<const std::byte> bytes_of(std::string_view text) noexcept;

// ---- text ----

// A character of UTF-8, RFC 3629: no overlong encodings, no surrogates, nothing past U+10FFFF.
struct Character {
  char32_t code = 0;
  std::size_t length = 0;  // in bytes; 0: the text does not begin with UTF-8
};
Character first_character(std::string_view text) noexcept;

// "q, k and v", where last is " and ".
template <class Word>
std::string listed(const std::vector<Word>& words, std::string_view last = ", ") {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text.append(i == 0 ? "" : i + 1 == words.size() ? last : ", ").append(words[i]);
  return text;
}
// "0-15, 17" of rising numbers.
template <class Integer>
std::string ranges(const std::vector<Integer>& rising) {
  std::string text;
  for (std::size_t i = 0; i < rising.size();) {
    std::size_t last = i;
    while (last + 1 < rising.size() && rising[last + 1] == rising[last] + 1) ++last;
    text.append(text.empty() ? "" : ", ").append(std::to_string(rising[i]));
    if (last > i) text.append("-").append(std::to_string(rising[last]));
    i = last + 1;
  }
  return text;
}

std::vector<std::string_view> words(std::string_view list, char separator = ' ');
bool is_listed(std::string_view word, std::string_view list);    // whether the word is in a list separated by blanks
std::string lower(std::string_view text);                        // A to Z only
using detail::printable;
// For error sentences: control characters and bytes that are not UTF-8 as \xNN.
std::string legible(std::string_view text);
// The text, or its first `most` bytes, the last character whole, and "...".
std::string cut(std::string_view text, std::size_t most);
// legible(text) in double quotes, cut after 80 bytes.
std::string in_quotes(std::string_view text);

}  // namespace rotary::files
