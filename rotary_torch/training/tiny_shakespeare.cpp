// Downloads Tiny Shakespeare once with curl or wget, checks it and keeps it.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "files/text/io.h"
#include "rotary/error.h"
#include "rotary_torch/training/sha256.h"
#include "rotary_torch/training/text.h"

namespace rotary_torch {

namespace {

using rotary::Code;
using rotary::Error;
namespace fs = std::filesystem;

constexpr const char* url =
    "https://raw.githubusercontent.com/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/"
    "input.txt";
constexpr std::string_view expected = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed";

fs::path cache_folder() {
  if (const char* chosen = std::getenv("ROTARY_CACHE"); chosen != nullptr && *chosen != '\0') return chosen;
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / ".cache" / "rotary";
  throw Error(Code::NETWORK,
              "[tiny_shakespeare] ROTARY_CACHE or HOME must say where to keep it but neither is set: set one, or give "
              "another text with --text FILE");
}

// The standard output of a program and its exit status (127: there is no such program).
struct Outcome {
  int status = 127;
  std::string output;
};

// Runs a program without a shell, so its arguments are passed unchanged.
Outcome run(const std::vector<const char*>& words) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (const char* word : words) arguments.push_back(const_cast<char*>(word));  // posix_spawn does not write to them
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, words[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Outcome outcome;
  if (failure == 0) {
    std::array<char, 65536> buffer{};
    for (ssize_t count = 0; (count = read(ends[0], buffer.data(), buffer.size())) != 0;) {
      if (count > 0) outcome.output.append(buffer.data(), static_cast<std::size_t>(count));
      if (count < 0 && errno != EINTR) break;
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }
  close(ends[0]);
  return outcome;
}

std::string download(const fs::path& target) {
  const std::string advice =
      ": give another text with --text FILE, or put the file at " + target.string() + " (" + url + ")";
  const std::vector<std::vector<const char*>> programs = {
      {"curl", "--silent", "--show-error", "--fail", "--location", "--retry", "2", "--connect-timeout", "20",
       "--speed-limit", "1", "--speed-time", "30", url},
      {"wget", "--quiet", "--tries=2", "--timeout=20", "--output-document=-", url}};
  std::string tried;
  for (const std::vector<const char*>& words : programs) {
    Outcome outcome = run(words);
    if (outcome.status == 0) {
      const std::string got = sha256(outcome.output);
      if (got == expected) return outcome.output;
      throw Error(Code::NETWORK, "[tiny_shakespeare] its sha256 must be " + std::string(expected) +
                                     " but what came has " + got + advice);
    }
    const std::string ending =
        outcome.status == 127 ? "is not here" : "ended with status " + std::to_string(outcome.status);
    tried += (tried.empty() ? "" : ", ") + std::string(words[0]) + " " + ending;
  }
  throw Error(Code::NETWORK, "[tiny_shakespeare] it must be downloaded but " + tried + advice);
}

bool is_kept(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && sha256(read_text(path)) == expected;
}

}  // namespace

fs::path tiny_shakespeare() {
  const fs::path target = cache_folder() / "tinyshakespeare.txt";
  if (is_kept(target)) return target;
  const std::string text = download(target);
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error)
    throw Error(Code::FILE, "[tiny_shakespeare] " + target.parent_path().string() +
                                ": the folder cannot be made: " + error.message());
  rotary::files::write_whole("tiny_shakespeare", target, text);
  return target;
}

}  // namespace rotary_torch
