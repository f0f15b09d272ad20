// rotary: the program on Windows, whose words are UTF-16. Everything inside is UTF-8, and so the console is while it
// runs.
#include <windows.h>

#include <shellapi.h>

#include <string>
#include <vector>

#include "commands.h"

namespace {

std::string utf8(const wchar_t* text) {
  const int size = WideCharToMultiByte(CP_UTF8, 0, text, -1, nullptr, 0, nullptr, nullptr);
  std::string bytes(static_cast<std::size_t>(size > 0 ? size : 1), '\0');
  WideCharToMultiByte(CP_UTF8, 0, text, -1, bytes.data(), size, nullptr, nullptr);
  bytes.pop_back();  // the end that -1 counts
  return bytes;
}

}  // namespace

int main() {
  int count = 0;
  wchar_t** const wide = CommandLineToArgvW(GetCommandLineW(), &count);
  if (wide == nullptr) return 1;
  std::vector<std::string> words;
  for (int i = 0; i < count; ++i) words.push_back(utf8(wide[i]));
  LocalFree(wide);
  std::vector<char*> letters;
  for (std::string& word : words) letters.push_back(word.data());
  letters.push_back(nullptr);

  const UINT before = GetConsoleOutputCP();
  SetConsoleOutputCP(CP_UTF8);
  const int status = rotary::cli::run_command_line(count, letters.data());
  SetConsoleOutputCP(before);
  return status;
}
