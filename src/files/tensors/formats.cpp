#include "formats.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include "files/text/descriptors.h"
#include "files/text/paths.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

[[noreturn]] void fail_with_reason(const std::string& what) {
  fail(Code::FILE, "tensors", what + ": " + std::generic_category().message(errno));
}

// Standard input's descriptor, or that of the opened path; closes only the latter.
class Source {
 public:
  explicit Source(const std::filesystem::path& path) : name_(stream_name(path)), own_(path != "-") {
    if (own_) descriptor_ = open_stream(path);
    if (descriptor_ < 0) fail_with_reason(name_ + ": cannot be opened");
  }
  ~Source() {
    if (own_) close_file(descriptor_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Bytes read; 0 at the end.
  std::size_t read(std::span<std::byte> out) const {
    const std::int64_t count = read_some(descriptor_, out);
    if (count < 0) fail_with_reason(name_ + ": cannot be read");
    return static_cast<std::size_t>(count);
  }

 private:
  std::string name_;
  bool own_;
  int descriptor_ = standard_input;
};

struct Content {
  std::string_view begin;  // in lower case
  const char* words;
};
using namespace std::string_view_literals;
constexpr Content contents[] = {
    {"pk\x03\x04"sv, "a zip archive, as .npz and PyTorch's .pt are"},
    {"\x80\x02"sv, "a Python pickle, as PyTorch's older .pt are"},
    {"\x93numpy"sv, "an .npy"},
    {"gguf"sv, "a GGUF file"},
    {"\x1f\x8b"sv, "a gzip file"},
    {"version https://git-lfs"sv, "a git-lfs pointer: 'git lfs pull' fetches the file that it stands for"},
    {"<!doctype"sv, "an HTML page: the download brought a page and not the file"},
    {"<html"sv, "an HTML page: the download brought a page and not the file"},
    {"{"sv, "a JSON text"},
};
constexpr std::size_t longest = 64;

}  // namespace

std::string stream_name(const std::filesystem::path& path) {
  const bool standard = path == "-" || path == "/dev/stdin" || path == "/dev/fd/0" || path == "/proc/self/fd/0";
  return standard ? "standard input" : path_text(path);
}

std::vector<std::byte> read_stream(const std::filesystem::path& path, std::size_t most) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  const Source source(path);
  std::vector<std::byte> bytes;
  for (std::size_t size = 0;;) {
    bytes.resize(size + piece);
    const std::size_t count = source.read(std::span(bytes).subspan(size));
    size += count;
    bytes.resize(size);
    if (count == 0 || (size >= most && !format_of(bytes))) return bytes;
  }
}

std::optional<Format> format_of(std::span<const std::byte> bytes) noexcept {
  constexpr std::string_view magic = "\x93NUMPY";
  if (bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0) return Format::npy;
  // The header's length in 8 bytes, of which the last is 0 below 2^56, and a JSON object.
  const bool safetensors = bytes.size() > 8 && bytes[7] == std::byte{0} && bytes[8] == std::byte{'{'};
  return safetensors ? std::optional(Format::safetensors) : std::nullopt;
}

std::string known_content(const InputFile& file) {
  std::array<std::byte, longest> bytes{};
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), bytes.size()));
  file.read(0, std::span(bytes).first(count));
  const std::string text = lower({reinterpret_cast<const char*>(bytes.data()), count});
  const std::size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  if (format_of(std::span(bytes).first(count)) == Format::safetensors) return "a safetensors file";
  for (const Content& known : contents) {
    if (std::string_view(text).substr(first).starts_with(known.begin)) return known.words;
  }
  return "";
}

void write_to_standard_output(std::span<const std::byte> bytes) {
  if (!write_all(standard_output, bytes)) fail_with_reason("standard output: cannot be written");
}

}  // namespace rotary::files
