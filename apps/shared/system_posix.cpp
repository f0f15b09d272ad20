#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "files/text/descriptors.h"
#include "system.h"
#include "text.h"

namespace rotary::cli {

std::optional<std::size_t> terminal_columns() {
  if (const auto asked = columns_asked()) return asked;
  winsize size{};
  const bool known = files::is_terminal(files::standard_output) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return known && size.ws_col != 0 ? std::optional<std::size_t>(size.ws_col) : std::nullopt;
}

// If a standard descriptor is closed at the start, the next opened file would get its number, and messages would be
// written into that file. /dev/null is opened for reading only, so that printing still fails.
void prepare_streams() {
  for (const int descriptor : {0, 1, 2}) {
    if (fcntl(descriptor, F_GETFD) < 0) open("/dev/null", O_RDONLY);
  }
}

std::filesystem::path program_path() {
  std::error_code unreadable;
  return std::filesystem::read_symlink("/proc/self/exe", unreadable);
}

std::optional<std::string> output_of(const std::filesystem::path& program, const std::vector<std::string>& words) {
  std::string command = in_shell_quotes(program.string());
  for (const std::string& word : words) command += " " + in_shell_quotes(word);
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, got);
  return pclose(pipe) == 0 ? std::optional(text) : std::nullopt;
}

}  // namespace rotary::cli
