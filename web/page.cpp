// The program in the page: web/program.js calls these.
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "commands.h"

extern "C" {

// Memory for the words of page_run, which frees it.
__attribute__((export_name("page_alloc"))) void* page_alloc(std::size_t size) { return std::malloc(size); }

// Runs one command line. words: `count` words, the program's name first, each with a NUL behind it.
__attribute__((export_name("page_run"))) int page_run(char* words, int count) {
  std::vector<char*> list;
  for (char* word = words; std::ssize(list) < count; word += std::strlen(word) + 1) list.push_back(word);
  list.push_back(nullptr);
  const int status = rotary::cli::run_command_line(count, list.data());
  std::free(words);
  return status;
}
}
