// Regular files: read in exact ranges, written whole or not at all. Every failure is an Error FILE that names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace rotary::files {

// Open for reading for as long as it lives. Folders, pipes and devices are refused. operation is the word in
// brackets of the sentences and must outlive the file.
class InputFile {
 public:
  InputFile(const char* operation, std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }  // when it was opened
  // Bytes [offset, offset + out.size()); an error if the file has become shorter than that. Safe from many threads.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  std::string text() const;  // all of it

 private:
  const char* operation_;
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

// The parts one after the other, under a temporary name in the same folder, then fsync and rename: at every moment
// path is the old file or the whole new one, and nothing else is left behind by a failure. A symbolic link is
// followed and stays; an existing file hands its permissions on.
void write_whole(const char* operation, const std::filesystem::path& path,
                 std::span<const std::span<const std::byte>> parts);

void write_whole(const char* operation, const std::filesystem::path& path, std::string_view text);

std::span<const std::byte> bytes_of(std::string_view text) noexcept;

std::string lower(std::string_view text);  // A to Z
// On one line: control characters as \xNN. A name from a file must not write lines of its own.
std::string printable(std::string_view text);
// For sentences: in double quotes, control characters and what is not UTF-8 as \xNN, cut after 80 bytes.
std::string in_quotes(std::string_view text);

}  // namespace rotary::files
