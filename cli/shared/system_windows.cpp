#include <fcntl.h>
#include <io.h>
#include <windows.h>

#include "system.h"
#include "text/descriptors.h"
#include "text/paths.h"

namespace rotary::cli {

std::optional<std::size_t> terminal_columns() {
  if (const auto asked = columns_asked()) return asked;
  CONSOLE_SCREEN_BUFFER_INFO screen{};
  if (GetConsoleScreenBufferInfo(GetStdHandle(STD_OUTPUT_HANDLE), &screen) == 0) return std::nullopt;
  const int columns = screen.srWindow.Right - screen.srWindow.Left + 1;
  return columns > 0 ? std::optional(static_cast<std::size_t>(columns)) : std::nullopt;
}

// Tensors are bytes, and text ends its lines as on every other system.
void prepare_streams() {
  for (const int descriptor : {0, 1, 2}) {
    if (_get_osfhandle(descriptor) >= 0) _setmode(descriptor, _O_BINARY);
  }
}

std::filesystem::path program_path() {
  std::wstring name(32768, L'\0');  // the longest path
  name.resize(GetModuleFileNameW(nullptr, name.data(), static_cast<DWORD>(name.size())));
  return name;
}

}  // namespace rotary::cli
