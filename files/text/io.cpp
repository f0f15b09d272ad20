#include "io.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "descriptors.h"
#include "paths.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* operation, const fs::path& path, const std::string& rule) {
  fail(Code::FILE, operation, path_text(path) + ": " + rule);
}

std::string reason(int error) { return std::generic_category().message(error); }

const char* kind_of(FileKind kind) noexcept {
  constexpr const char* kinds[] = {"a regular file", "a folder", "a pipe", "a socket", "a device"};
  return kinds[static_cast<std::size_t>(kind)];
}

#ifdef SIGHUP
constexpr int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};
#else
constexpr int ending_signals[] = {SIGINT, SIGTERM};
#endif
std::array<std::atomic<const fs::path*>, 16> unfinished = {};

extern "C" void remove_unfinished(int number) {
  for (const std::atomic<const fs::path*>& path : unfinished) {
    if (const fs::path* file = path.load()) remove_file(*file);
  }
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// During its lifetime, a signal that ends the process first removes the file. Signals that are handled or ignored stay
// so.
class RemovedBySignals {
 public:
  explicit RemovedBySignals(const fs::path& file) {
    const std::lock_guard lock(mutex_);
    if (count_++ == 0) exchange(SIG_DFL, remove_unfinished);
    for (std::atomic<const fs::path*>& slot : unfinished) {
      const fs::path* free = nullptr;
      if (!slot.compare_exchange_strong(free, &file)) continue;
      slot_ = &slot;
      return;
    }
  }
  ~RemovedBySignals() {
    const std::lock_guard lock(mutex_);
    if (slot_ != nullptr) slot_->store(nullptr);
    if (--count_ == 0) exchange(remove_unfinished, SIG_DFL);
  }
  RemovedBySignals(const RemovedBySignals&) = delete;
  RemovedBySignals& operator=(const RemovedBySignals&) = delete;

 private:
  static void exchange(SignalHandler from, SignalHandler to) {
    for (const int number : ending_signals) exchange_handler(number, from, to);
  }

  inline static std::mutex mutex_;
  inline static int count_ = 0;
  std::atomic<const fs::path*>* slot_ = nullptr;  // null if more files are written than there are slots
};

// A temporary file, removed unless it was renamed. Error sentences name `shown`.
class TemporaryFile {
 public:
  TemporaryFile(const char* operation, const fs::path& target, const fs::path& shown)
      : operation_(operation), target_(target), shown_(shown) {
    static std::atomic<unsigned> next{0};
    constexpr int tries = 1000;  // killed processes of the same id may have left files of these names
    for (int i = 0; i < tries && descriptor_ < 0; ++i) {
      const std::string name = ".rotary-" + std::to_string(process_id()) + "-" + std::to_string(next++) + ".tmp";
      removed_.reset();
      path_ = target.parent_path() / name;
      removed_.emplace(path_);
      descriptor_ = create_file(path_);
      if (descriptor_ < 0 && errno != EEXIST) break;
    }
    if (descriptor_ < 0) fail(operation_, shown_, "a file cannot be made in this folder: " + reason(errno));
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) close_file(descriptor_);
    if (!renamed_) remove_file(path_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void keep_permissions(unsigned permissions) {
    check(set_permissions(descriptor_, permissions), "its permissions cannot be kept");
  }

  void write(std::span<const std::byte> bytes) { check(write_all(descriptor_, bytes), "cannot be written"); }

  void commit() {
    check(sync_file(descriptor_), "cannot be written to the disk");
    check(close_file(std::exchange(descriptor_, -1)), "cannot be written");
    check(replace_file(path_, target_), "cannot be replaced");
    renamed_ = true;
  }

 private:
  void check(bool good, const char* rule) const {
    if (!good) fail(operation_, shown_, std::string(rule) + ": " + reason(errno));
  }

  const char* operation_;
  const fs::path& target_;
  const fs::path& shown_;
  fs::path path_;
  std::optional<RemovedBySignals> removed_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

// The target of a chain of symbolic links, whether or not it exists.
fs::path behind_links(const char* operation, fs::path path) {
  constexpr int max_links = 40;  // Linux's limit
  for (int i = 0; i <= max_links; ++i) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(path, error))) return path;
    const fs::path link = fs::read_symlink(path, error);
    if (error) fail(operation, path, "the link cannot be read: " + error.message());
    path = path.parent_path() / link;  // an absolute link replaces the path
  }
  fail(operation, path, reason(ELOOP));
}

std::optional<unsigned> permissions_of(const char* operation, const fs::path& target) {
  const std::optional<FileStatus> status = status_of(target);
  if (!status) return std::nullopt;
  if (status->kind != FileKind::regular)
    fail(operation, target, std::string("only a regular file can be written but this is ") + kind_of(status->kind));
  return status->permissions;
}

// Makes the new name durable; the file is complete even without it.
void sync_name(const char* operation, const fs::path& target) {
  const fs::path folder = target.parent_path().empty() ? fs::path(".") : target.parent_path();
  if (!sync_folder(folder)) fail(operation, target, "the folder cannot be written to the disk: " + reason(errno));
}

// Bytes of the first character of text; 0 if it is a control character or not UTF-8.
std::size_t character_length(std::string_view text) noexcept {
  const Character character = first_character(text);
  return character.code < 0x20 || character.code == 0x7F ? 0 : character.length;
}

std::string escaped(char c) {
  constexpr const char* digits = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
}

// Takes the first word from a list that is not empty.
std::string_view next_word(std::string_view& list, char separator) {
  const std::size_t end = std::min(list.find(separator), list.size());
  const std::string_view word = list.substr(0, end);
  list.remove_prefix(std::min(end + 1, list.size()));
  return word;
}

}  // namespace

InputFile::InputFile(const char* operation, fs::path path) : operation_(operation), path_(std::move(path)) {
  descriptor_ = open_to_read(path_);
  if (descriptor_ < 0) fail(operation_, path_, "cannot be opened: " + reason(errno));
  const std::optional<FileStatus> status = status_of(descriptor_);
  const int error = status ? 0 : errno;
  if (status && status->kind == FileKind::regular) {
    size_ = status->size;
    return;
  }
  close_file(descriptor_);
  if (!status) fail(operation_, path_, "cannot be examined: " + reason(error));
  fail(operation_, path_, std::string("only a regular file can be read but this is ") + kind_of(status->kind));
}

InputFile::InputFile(const char* operation, fs::path path, std::vector<std::byte> whole)
    : operation_(operation), path_(std::move(path)), size_(whole.size()), memory_(std::move(whole)) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close_file(descriptor_);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (descriptor_ < 0) {
    if (offset > size_ || out.size() > size_ - offset)
      fail(operation_, path_, "has " + std::to_string(size_) + " bytes but more are read");
    std::copy_n(memory_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return;
  }
  while (!out.empty()) {
    const std::int64_t count = read_some_at(descriptor_, offset, out);
    if (count < 0) fail(operation_, path_, "cannot be read: " + reason(errno));
    if (count == 0) {
      fail(operation_, path_,
           "had " + std::to_string(size_) + " bytes when it was opened but now ends at " + std::to_string(offset));
    }
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void InputFile::copy(std::uint64_t begin, std::uint64_t end, const Sink& sink) const {
  std::vector<std::byte> piece;
  for (std::uint64_t at = begin; at < end; at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, end - at)));
    read(at, piece);
    sink(piece);
  }
}

std::string InputFile::text() const {
  std::string whole(static_cast<std::size_t>(size_), '\0');
  read(0, std::as_writable_bytes(std::span(whole)));
  return whole;
}

void write_whole(const char* operation, const fs::path& path, std::string_view text) {
  const std::span<const std::byte> part = bytes_of(text);
  write_whole(operation, path, {&part, 1});
}

void write_whole(const char* operation, const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  write_whole(operation, path, [parts](const Sink& sink) {
    for (const std::span<const std::byte> part : parts) sink(part);
  });
}

void write_whole(const char* operation, const fs::path& path, const std::function<void(const Sink&)>& produce) {
  write_whole_as(operation, path, {}, produce);
}

void write_whole_as(const char* operation, const fs::path& path, const fs::path& shown,
                    const std::function<void(const Sink&)>& produce) {
  const fs::path target = behind_links(operation, path);
  const std::optional<unsigned> permissions = permissions_of(operation, target);
  TemporaryFile file(operation, target, shown.empty() ? target : shown);
  if (permissions) file.keep_permissions(*permissions);
  produce([&file](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
  sync_name(operation, target);
}

std::span<const std::byte> bytes_of(std::string_view text) noexcept { return std::as_bytes(std::span(text)); }

Character first_character(std::string_view text) noexcept {
  const auto byte = [text](std::size_t i) -> char32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, text.empty() ? 0U : 1U};
  const std::size_t length = first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF8 ? 4 : 0;
  if (length == 0) return {};
  char32_t code = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr std::array<char32_t, 5> smallest = {0, 0, 0x80, 0x800, 0x10000};  // below: an overlong encoding
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < smallest[length] || code > 0x10FFFF || surrogate) return {};
  return {code, length};
}

std::vector<std::string_view> words(std::string_view list, char separator) {
  std::vector<std::string_view> found;
  while (!list.empty()) found.push_back(next_word(list, separator));
  return found;
}

bool is_listed(std::string_view word, std::string_view list) {
  while (!list.empty()) {
    if (next_word(list, ' ') == word && !word.empty()) return true;
  }
  return false;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string legible(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    result += length > 0 ? std::string(text.substr(0, length)) : escaped(text.front());
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

std::string cut(std::string_view text, std::size_t most) {
  std::size_t end = 0;
  while (end < text.size() && end < most) end += std::max<std::size_t>(character_length(text.substr(end)), 1);
  return std::string(text.substr(0, end)) + (end < text.size() ? "..." : "");
}

std::string in_quotes(std::string_view text) { return '"' + legible(cut(text, 80)) + '"'; }

}  // namespace rotary::files
