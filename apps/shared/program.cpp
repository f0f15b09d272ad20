#include "program.h"

#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cctype>
#include <csignal>
#include <iostream>
#include <new>

#include "failed.h"
#include "rotary/error.h"
#include "text.h"
#include "usage_error.h"

namespace rotary::cli {

std::vector<std::string> command_words(int argc, char** argv) {
  constexpr std::array<std::string_view, 8> options = {"--positions", "--length",     "--rope",    "--base",
                                                       "--first",     "--rotary-dim", "--threads", "--head-dim"};
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool negative = word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) != 0;
    bool joins = false;
    for (const std::string_view option : options) joins = joins || (!words.empty() && words.back() == option);
    if (negative && joins) {
      words.back().append("=").append(word);
    } else {
      words.emplace_back(word);
    }
  }
  return words;
}

int fail(Code code, std::string_view sentence) {
  // A single write, so that processes that share a terminal, as under mpirun, do not mix their lines.
  std::cerr << "error: " + std::string(name(code)) + ": " + printable(sentence) + "\n";
  return 1;
}

int fail_usage(const CLI::App& app, std::string_view sentence) {
  std::string command = "rotary";
  for (const CLI::App* chosen : app.get_subcommands()) command += " " + chosen->get_name();
  std::cerr << "usage error: " << printable(sentence) << "\nRun '" << command << " --help' for what can be said.\n";
  return 2;
}

namespace {

// If a standard descriptor is closed at the start, the next opened file would get its number, and messages would be
// written into that file. /dev/null is opened for reading only, so that printing still fails.
void fill_standard_descriptors() {
  for (const int descriptor : {0, 1, 2}) {
    if (fcntl(descriptor, F_GETFD) < 0) open("/dev/null", O_RDONLY);
  }
}

}  // namespace

int run_program(CLI::App& app, const std::vector<std::string>& words) {
  fill_standard_descriptors();
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write(), with a sentence, like a full disk
#endif
  const auto is_first_word = [&words](const CLI::App* command) { return command->get_name() == words[0]; };
  if (!words.empty() && words[0][0] != '-' && app.get_subcommands(is_first_word).empty()) {
    return fail_usage(app, "there is no command '" + words[0] + "'");
  }
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // CLI11's order
    app.parse(std::move(reversed));
  } catch (const CLI::Success& request) {  // --help, --version
    app.exit(request);
  } catch (const CLI::ParseError& error) {
    return fail_usage(app, error.what());
  } catch (const UsageError& error) {
    return fail_usage(app, error.what());
  } catch (const Failed& failed) {
    std::cout.flush();
    return std::cout ? failed.status : fail(Code::FILE, "standard output could not be written");
  } catch (const Stopped& stopped) {
    std::cout.flush();
    return stopped.status;
  } catch (const rotary::Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(Code::MEMORY, "the work does not fit in this machine's memory");
  } catch (const std::exception& error) {
    const bool torch_has_no_memory =
        std::string_view(error.what()).find("DefaultCPUAllocator") != std::string_view::npos;
    if (torch_has_no_memory) return fail(Code::MEMORY, "the work does not fit in this machine's memory");
    return fail(Code::INTERNAL, error.what());
  }
  std::cout.flush();
  return std::cout ? 0 : fail(Code::FILE, "standard output could not be written");
}

}  // namespace rotary::cli
