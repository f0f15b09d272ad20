#include "text.h"

#include <algorithm>

namespace rotary::cli {

std::size_t columns(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::ranges::count_if(utf8, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

std::string pad(std::string_view text, std::size_t width) {
  std::string padded(text);
  if (padded.size() < width) padded.append(width - padded.size(), ' ');
  return padded;
}

std::string lead(std::string_view text, std::size_t width) {
  return (text.size() < width ? std::string(width - text.size(), ' ') : std::string()) + std::string(text);
}

std::string counted(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) text.append(&word == words.data() ? "" : between).append(word);
  return text;
}

std::string in_shell_quotes(std::string_view word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  const auto append = [&lines](std::string_view part) {
    lines.back() += lines.back().empty() ? "" : " ";
    lines.back() += part;
  };
  for (std::size_t begin = 0; (begin = text.find_first_not_of(" \n", begin)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    std::string_view word = text.substr(begin, end - begin);
    begin = end;
    for (;;) {
      const std::size_t used = columns(lines.back()), begun = used == 0 ? 0 : used + 1;
      const std::size_t room = width > begun ? width - begun : 0;
      const bool fits = columns(word) <= room;
      const std::size_t dot =
          fits || columns(word) <= width || room == 0 ? std::string_view::npos : word.rfind('.', room - 1);
      const bool breaks = dot != std::string_view::npos && dot > 0 && dot + 1 < word.size();
      if (fits || (used == 0 && !breaks)) break;
      if (breaks) append(word.substr(0, dot + 1));
      if (breaks) word.remove_prefix(dot + 1);
      lines.emplace_back();
    }
    append(word);
  }
  return lines;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string joined;
  for (const std::string& line : wrapped(text, width - indent))
    joined += (joined.empty() ? "" : "\n" + std::string(indent, ' ')) + line;
  return joined;
}

std::string with_version(std::string json) {
  const std::size_t key = json.find('"');
  return json.insert(std::min(key, json.size()), "\"version\": 1," + (key > 1 ? json.substr(1, key - 1) : " "));
}

nlohmann::ordered_json nested(std::span<const nlohmann::ordered_json> elements, std::span<const std::int64_t> shape) {
  if (shape.empty()) return elements.front();
  auto list = nlohmann::ordered_json::array();
  const std::size_t count = static_cast<std::size_t>(shape.front()),
                    each = elements.size() / std::max<std::size_t>(1, count);
  for (std::size_t i = 0; i < count; ++i) list.push_back(nested(elements.subspan(i * each, each), shape.subspan(1)));
  return list;
}

std::string value_text(double value, int digits) { return significant(value, digits); }
std::string value_text(std::int64_t value, int) { return std::to_string(value); }
std::string value_text(bool value, int) { return value ? "true" : "false"; }
std::string value_text(const std::optional<double>& value, int digits) {
  return value ? significant(*value, digits) : "none";
}
std::string value_text(const std::vector<double>& values, int digits) {
  std::string text;
  for (const double& value : values) text += (&value == values.data() ? "" : ", ") + significant(value, digits);
  return text;
}

const char* direction(const Rope& rope) noexcept { return rope.clockwise ? "clockwise" : "counterclockwise"; }

}  // namespace rotary::cli
