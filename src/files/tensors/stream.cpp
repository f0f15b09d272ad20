#include "stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "files/text/io.h"
#include "npy.h"
#include "rotary/error.h"
#include "safetensors_header.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

constexpr std::size_t piece = std::size_t{1} << 20;

[[noreturn]] void fail_with_reason(const std::string& what) {
  fail(Code::FILE, "tensors", what + ": " + std::generic_category().message(errno));
}

// Standard input's descriptor, or that of the opened path; closes only the latter.
class Source {
 public:
  explicit Source(const std::filesystem::path& path)
      : name_(path == "-" ? "standard input" : path.string()), own_(path != "-") {
    if (own_) descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (descriptor_ < 0) fail_with_reason(name_ + ": cannot be opened");
  }
  ~Source() {
    if (own_) close(descriptor_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  const std::string& name() const noexcept { return name_; }

  std::vector<std::byte> whole() const {
    std::vector<std::byte> bytes;
    for (std::size_t size = 0;;) {
      bytes.resize(size + piece);
      const ssize_t count = ::read(descriptor_, bytes.data() + size, piece);
      if (count < 0 && errno != EINTR) fail_with_reason(name_ + ": cannot be read");
      size += count > 0 ? static_cast<std::size_t>(count) : 0;
      bytes.resize(size);
      if (count == 0) return bytes;
    }
  }

 private:
  std::string name_;
  bool own_;
  int descriptor_ = STDIN_FILENO;
};

void write_out(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with_reason("standard output: cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace

StreamContents read_stream(const std::filesystem::path& path) {
  const Source source(path);
  std::vector<std::byte> bytes = source.whole();
  constexpr std::string_view npy_magic = "\x93NUMPY";
  StreamContents contents;
  if (bytes.size() >= npy_magic.size() && std::memcmp(bytes.data(), npy_magic.data(), npy_magic.size()) == 0) {
    contents.format = Format::npy;
    contents.tensors.push_back(parse_npy(std::move(bytes), source.name()));
    return contents;
  }
  const SafetensorsFile file(std::move(bytes), source.name());
  for (const TensorInfo& info : file.tensors()) contents.tensors.push_back(file.read(info.name));
  contents.metadata = file.metadata();
  return contents;
}

void write_to_standard_output(Format format, std::span<const Tensor> tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::string header;
  if (format == Format::npy) {
    header = npy_header(only_of_npy(tensors, metadata));
  } else {
    std::vector<const Tensor*> pointers;
    for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
    header = make_header(pointers, metadata);
  }
  write_out(bytes_of(header));
  for (const Tensor& tensor : tensors) write_out(tensor.data);
}

}  // namespace rotary::files
