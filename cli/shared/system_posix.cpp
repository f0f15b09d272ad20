#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "system.h"
#include "text/descriptors.h"

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

}  // namespace rotary::cli
