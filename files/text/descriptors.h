// File descriptors and the environment for the readers: descriptors_posix.cpp and descriptors_windows.cpp. On failure,
// functions return -1 or false and leave the reason in errno. An interrupted call is repeated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace rotary::files {

enum class FileKind { regular, folder, pipe, socket, device };

struct FileStatus {
  FileKind kind = FileKind::regular;
  std::uint64_t size = 0;
  unsigned permissions = 0;  // POSIX only; 0 on Windows, where a new file gets its folder's
};

inline constexpr int standard_input = 0, standard_output = 1, standard_error = 2;

// For a pipe without a writer, open_to_read opens it at once, to be refused, and open_stream waits.
int open_to_read(const std::filesystem::path&);
int open_stream(const std::filesystem::path&);
int create_file(const std::filesystem::path&);  // EEXIST if the name is taken
bool close_file(int descriptor);

std::optional<FileStatus> status_of(int descriptor);
std::optional<FileStatus> status_of(const std::filesystem::path&);

std::int64_t read_some(int descriptor, std::span<std::byte>);  // bytes read; 0 at the end
// The same at an offset, from any thread.
std::int64_t read_some_at(int descriptor, std::uint64_t offset, std::span<std::byte>);
bool write_all(int descriptor, std::span<const std::byte>);

bool set_permissions(int descriptor, unsigned permissions);
bool sync_file(int descriptor);  // to the disk
// Makes the names in a folder durable. Only a disk error is a failure, not a folder that cannot be opened or synced.
bool sync_folder(const std::filesystem::path& folder);
// Renames atomically, over an existing file, even if that is open for reading.
bool replace_file(const std::filesystem::path& from, const std::filesystem::path& to);
void remove_file(const std::filesystem::path&);

// Whether this names a pipe or socket, or an open descriptor of this process.
bool names_pipe(const std::filesystem::path&);

// A variable of the environment; empty if it is not set.
std::string environment(const char* name);
std::string home_folder();

// Makes `to` the handler of a signal if its handler is `from`. Another handler stays, with its flags, and is never
// replaced; on Windows, which cannot query the handler, it is replaced for a moment.
using SignalHandler = void (*)(int);
void exchange_handler(int signal, SignalHandler from, SignalHandler to);

unsigned long process_id();
bool is_terminal(int descriptor);

}  // namespace rotary::files
