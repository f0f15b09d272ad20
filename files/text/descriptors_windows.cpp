#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>
#include <windows.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "descriptors.h"
#include "paths.h"

namespace rotary::files {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_at_once = std::size_t{1} << 30;  // the functions of Windows count it in 32 bits

int errno_of(DWORD error) noexcept {
  switch (error) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_NETPATH:
      return ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
    case ERROR_WRITE_PROTECT:
      return EACCES;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
      return EEXIST;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
      return ENOSPC;
    case ERROR_FILENAME_EXCED_RANGE:
      return ENAMETOOLONG;
    case ERROR_INVALID_HANDLE:
      return EBADF;
    default:
      return EIO;
  }
}

// Sets errno from the error of the last Windows call.
int failed() noexcept {
  errno = errno_of(GetLastError());
  return -1;
}

HANDLE handle_of(int descriptor) noexcept { return reinterpret_cast<HANDLE>(_get_osfhandle(descriptor)); }

// Others may rename and remove a file that is open for reading, as on POSIX. Also opens folders, to recognise them.
HANDLE handle_to_read(const fs::path& path, DWORD access) noexcept {
  return CreateFileW(path.c_str(), access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                     OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
}

int descriptor_from(HANDLE handle, int flags) noexcept {
  if (handle == INVALID_HANDLE_VALUE) return failed();
  const int descriptor = _open_osfhandle(reinterpret_cast<intptr_t>(handle), flags);
  if (descriptor < 0) CloseHandle(handle);
  return descriptor;
}

std::optional<FileStatus> status_of_handle(HANDLE handle) noexcept {
  const DWORD type = GetFileType(handle);
  if (type == FILE_TYPE_PIPE) return FileStatus{FileKind::pipe, 0, 0};
  if (type != FILE_TYPE_DISK) return FileStatus{FileKind::device, 0, 0};
  BY_HANDLE_FILE_INFORMATION found{};
  if (GetFileInformationByHandle(handle, &found) == 0) {
    failed();
    return std::nullopt;
  }
  const bool folder = (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  const std::uint64_t size = std::uint64_t{found.nFileSizeHigh} << 32 | found.nFileSizeLow;
  return FileStatus{folder ? FileKind::folder : FileKind::regular, size, 0};
}

// Renames as on POSIX, even if a file of that name is open. Windows 10 and newer, on NTFS.
bool renamed_as_posix(const fs::path& from, const fs::path& to) {
  const HANDLE handle = CreateFileW(from.c_str(), DELETE | SYNCHRONIZE, FILE_SHARE_READ | FILE_SHARE_DELETE, nullptr,
                                    OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (handle == INVALID_HANDLE_VALUE) return false;
  const std::wstring name = fs::absolute(to).wstring();
  const std::size_t bytes = name.size() * sizeof(wchar_t);
  std::vector<std::byte> memory(sizeof(FILE_RENAME_INFO) + bytes);
  constexpr DWORD replace_if_exists = 1, posix_semantics = 2;  // FILE_RENAME_FLAG_*, which older headers lack
  constexpr auto rename_info_ex = static_cast<FILE_INFO_BY_HANDLE_CLASS>(22);
  const DWORD flags = replace_if_exists | posix_semantics;
  const DWORD length = static_cast<DWORD>(bytes);
  std::memcpy(memory.data(), &flags, sizeof flags);
  std::memcpy(memory.data() + offsetof(FILE_RENAME_INFO, FileNameLength), &length, sizeof length);
  std::memcpy(memory.data() + offsetof(FILE_RENAME_INFO, FileName), name.data(), bytes);
  const bool done =
      SetFileInformationByHandle(handle, rename_info_ex, memory.data(), static_cast<DWORD>(memory.size())) != 0;
  CloseHandle(handle);
  return done;
}

}  // namespace

int open_to_read(const fs::path& path) {
  return descriptor_from(handle_to_read(path, GENERIC_READ), _O_RDONLY | _O_BINARY | _O_NOINHERIT);
}

int open_stream(const fs::path& path) { return open_to_read(path); }

int create_file(const fs::path& path) {
  return _wopen(path.c_str(), _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE);
}

bool close_file(int descriptor) { return _close(descriptor) == 0; }

std::optional<FileStatus> status_of(int descriptor) { return status_of_handle(handle_of(descriptor)); }

std::optional<FileStatus> status_of(const fs::path& path) {
  const HANDLE handle = handle_to_read(path, FILE_READ_ATTRIBUTES);
  if (handle == INVALID_HANDLE_VALUE) {
    failed();
    return std::nullopt;
  }
  const std::optional<FileStatus> status = status_of_handle(handle);
  CloseHandle(handle);
  return status;
}

std::int64_t read_some(int descriptor, std::span<std::byte> out) {
  return _read(descriptor, out.data(), static_cast<unsigned>(std::min(out.size(), most_at_once)));
}

std::int64_t read_some_at(int descriptor, std::uint64_t offset, std::span<std::byte> out) {
  OVERLAPPED place{};
  place.Offset = static_cast<DWORD>(offset & 0xFFFFFFFF);
  place.OffsetHigh = static_cast<DWORD>(offset >> 32);
  DWORD count = 0;
  const auto most = static_cast<DWORD>(std::min(out.size(), most_at_once));
  if (ReadFile(handle_of(descriptor), out.data(), most, &count, &place) != 0) return count;
  return GetLastError() == ERROR_HANDLE_EOF ? 0 : failed();
}

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const int count = _write(descriptor, bytes.data(), static_cast<unsigned>(std::min(bytes.size(), most_at_once)));
    if (count < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool set_permissions(int, unsigned) { return true; }

bool sync_file(int descriptor) { return _commit(descriptor) == 0; }

bool sync_folder(const fs::path&) { return true; }  // replace_file has written the name

bool replace_file(const fs::path& from, const fs::path& to) {
  if (renamed_as_posix(from, to)) return true;
  if (MoveFileExW(from.c_str(), to.c_str(), MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) != 0) return true;
  failed();
  return false;
}

void remove_file(const fs::path& path) { DeleteFileW(path.c_str()); }

unsigned long process_id() { return GetCurrentProcessId(); }

// Opening a pipe by its name would take its one connection.
bool names_pipe(const fs::path& path) { return path.native().starts_with(L"\\\\.\\pipe\\"); }

std::string environment(const char* name) {
  const std::wstring wide_name(name, name + std::strlen(name));  // all are ASCII
  std::wstring value(32768, L'\0');                              // the longest
  value.resize(GetEnvironmentVariableW(wide_name.c_str(), value.data(), static_cast<DWORD>(value.size())));
  return path_text(fs::path(value));
}

std::string home_folder() { return environment("USERPROFILE"); }

void exchange_handler(int signal, SignalHandler from, SignalHandler to) {
  const SignalHandler before = std::signal(signal, to);
  if (before != from && before != SIG_ERR) std::signal(signal, before);
}

// Whether it is a console; _isatty is also true for NUL.
bool is_terminal(int descriptor) {
  DWORD mode = 0;
  return GetConsoleMode(handle_of(descriptor), &mode) != 0;
}

}  // namespace rotary::files
