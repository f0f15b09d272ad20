#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "descriptors.h"

namespace rotary::files {
namespace {

namespace fs = std::filesystem;

FileStatus status_from(const struct stat& status) noexcept {
  const mode_t mode = status.st_mode;
  const FileKind kind = S_ISREG(mode)    ? FileKind::regular
                        : S_ISDIR(mode)  ? FileKind::folder
                        : S_ISFIFO(mode) ? FileKind::pipe
                        : S_ISSOCK(mode) ? FileKind::socket
                                         : FileKind::device;
  return {kind, static_cast<std::uint64_t>(status.st_size), static_cast<unsigned>(mode & 07777)};
}

// A call that returns a count, a descriptor or 0, and -1 for an error.
template <class Function>
auto uninterrupted(const Function& call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

int open_file(const fs::path& path, int flags) {
  return uninterrupted([&] { return open(path.c_str(), flags | O_CLOEXEC, 0666); });
}

}  // namespace

int open_to_read(const fs::path& path) { return open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY); }

int open_stream(const fs::path& path) { return open_file(path, O_RDONLY | O_NOCTTY); }

int create_file(const fs::path& path) { return open_file(path, O_WRONLY | O_CREAT | O_EXCL); }

// An interrupted close has closed the file, and is not repeated: another thread may have the descriptor already.
bool close_file(int descriptor) { return close(descriptor) == 0 || errno == EINTR; }

std::optional<FileStatus> status_of(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return std::nullopt;
  return status_from(status);
}

std::optional<FileStatus> status_of(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return status_from(status);
}

std::int64_t read_some(int descriptor, std::span<std::byte> out) {
  return uninterrupted([&] { return read(descriptor, out.data(), out.size()); });
}

std::int64_t read_some_at(int descriptor, std::uint64_t offset, std::span<std::byte> out) {
  return uninterrupted([&] { return pread(descriptor, out.data(), out.size(), static_cast<off_t>(offset)); });
}

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::int64_t count = uninterrupted([&] { return write(descriptor, bytes.data(), bytes.size()); });
    if (count < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool set_permissions(int descriptor, unsigned permissions) {
  return uninterrupted([&] { return fchmod(descriptor, static_cast<mode_t>(permissions)); }) == 0;
}

bool sync_file(int descriptor) {
  return uninterrupted([&] { return fsync(descriptor); }) == 0;
}

bool sync_folder(const fs::path& folder) {
  const int descriptor = open_file(folder, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return true;
  const bool broken = !sync_file(descriptor) && errno == EIO;
  close(descriptor);
  if (broken) errno = EIO;
  return !broken;
}

bool replace_file(const fs::path& from, const fs::path& to) { return std::rename(from.c_str(), to.c_str()) == 0; }

void remove_file(const fs::path& path) { unlink(path.c_str()); }

void exchange_handler(int signal, SignalHandler from, SignalHandler to) {
  struct sigaction now {};
  if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == from) std::signal(signal, to);
}

unsigned long process_id() { return static_cast<unsigned long>(getpid()); }

bool names_pipe(const fs::path& path) {
  const std::string& name = path.native();
  if (name == "/dev/stdin" || name.starts_with("/dev/fd/") || name.starts_with("/proc/self/fd/")) return true;
  const std::optional<FileStatus> status = status_of(path);
  return status && (status->kind == FileKind::pipe || status->kind == FileKind::socket);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string home_folder() { return environment("HOME"); }

bool is_terminal(int descriptor) { return isatty(descriptor) == 1; }

}  // namespace rotary::files
