#include "foreign.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "stream.h"

namespace rotary::files {
namespace {

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

}  // namespace rotary::files
