// The program in the page: web/program.js calls these.
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "commands.h"

extern "C" {

// Runs one command line. words: memory of malloc, freed here, with `count` words, the program's name first, and a NUL
// behind each.
__attribute__((export_name("page_run"))) int page_run(char* words, int count) {
  std::vector<char*> list;
  for (char* word = words; std::ssize(list) < count; word += std::strlen(word) + 1) list.push_back(word);
  list.push_back(nullptr);
  const int status = rotary::cli::run_command_line(count, list.data());
  std::free(words);
  return status;
}
}
