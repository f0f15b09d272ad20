#include "text.h"

namespace rotary::cli {

std::string ranges(const std::vector<int>& rising) {
  if (rising.empty()) return "none";
  std::string text;
  for (std::size_t i = 0; i < rising.size();) {
    std::size_t last = i;
    while (last + 1 < rising.size() && rising[last + 1] == rising[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(rising[i]);
    if (last > i) text.append("-").append(std::to_string(rising[last]));
    i = last + 1;
  }
  return text;
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

const char* direction(const Rope& rope) noexcept { return rope.clockwise ? "clockwise" : "counterclockwise"; }

}  // namespace rotary::cli
