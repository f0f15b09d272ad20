// The formats of tensor files, by their suffixes and first bytes; streams; and functions for files of either format.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "formats.h"
#include "rotary/error.h"
#include "rotary/tensors.h"
#include "text/descriptors.h"
#include "text/io.h"
#include "text/paths.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary {
namespace files {
namespace {

constexpr const char* numpy_line =
    "; this line of Python saves arrays: "
    "import safetensors.numpy; safetensors.numpy.save_file({\"q\": q, \"k\": k}, \"qk.safetensors\")";
constexpr const char* torch_line =
    "; this line of Python saves tensors: "
    "import safetensors.torch; safetensors.torch.save_file({\"q\": q, \"k\": k}, \"qk.safetensors\")";

// Tensor files that are not supported, and a line of Python that writes a supported one.
struct Foreign {
  const char* ending;
  const char* line;
};
constexpr Foreign foreign[] = {
    {".npz", numpy_line}, {".pt", torch_line}, {".pth", torch_line}, {".bin", torch_line}, {".ckpt", torch_line}};

std::optional<Format> known_format(const std::filesystem::path& path) {
  if (path.extension() == ".safetensors") return Format::safetensors;
  if (path.extension() == ".npy") return Format::npy;
  return std::nullopt;
}

const Foreign* find_foreign(const std::filesystem::path& path) {
  for (const Foreign& known : foreign) {
    if (path.extension() == known.ending) return &known;
  }
  return nullptr;
}

[[noreturn]] void fail_with_reason(const std::string& what) {
  fail(Code::FILE, "tensors", what, ": ", std::generic_category().message(errno));
}

// Standard input's descriptor, or that of the opened path; closes only the latter.
class Source {
 public:
  explicit Source(const std::filesystem::path& path) : name_(stream_name(path)), own_(path != "-") {
    if (own_) descriptor_ = open_stream(path);
    if (descriptor_ < 0) fail_with_reason(name_ + ": cannot be opened");
  }
  ~Source() {
    if (own_) close_file(descriptor_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Bytes read; 0 at the end.
  std::size_t read(std::span<std::byte> out) const {
    const std::int64_t count = read_some(descriptor_, out);
    if (count < 0) fail_with_reason(name_ + ": cannot be read");
    return static_cast<std::size_t>(count);
  }

 private:
  std::string name_;
  bool own_;
  int descriptor_ = standard_input;
};

struct Content {
  std::string_view begin;  // in lower case
  const char* words;
  const char* line = "";
};
using namespace std::string_view_literals;
constexpr Content contents[] = {
    {"pk\x03\x04"sv, "a zip archive, as .npz and PyTorch's .pt are", torch_line},
    {"\x80\x02"sv, "a Python pickle, as torch.save wrote before PyTorch 1.6", torch_line},
    {"\x93numpy"sv, "an .npy"},
    {"gguf"sv, "a GGUF file"},
    {"\x1f\x8b"sv, "a gzip file"},
    {"version https://git-lfs"sv, "a git-lfs pointer: 'git lfs pull' fetches the file that it stands for"},
    {"<!doctype"sv, "an HTML page: the download brought a page and not the file"},
    {"<html"sv, "an HTML page: the download brought a page and not the file"},
    {"{"sv, "a JSON text"},
};
constexpr std::size_t most_sniffed = 64;

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) noexcept {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

// The header's length in 8 bytes, of which the last is 0 below 2^56, and a JSON object.
bool is_safetensors(std::span<const std::byte> bytes) noexcept {
  return bytes.size() > 8 && bytes[7] == std::byte{0} && bytes[8] == std::byte{'{'};
}

}  // namespace

Format format_to_read(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!names_tensors(path) && !std::filesystem::exists(path, ignored)) {
    fail(Code::FILE, "tensors", path_text(path),
         ": cannot be opened: ", std::make_error_code(std::errc::no_such_file_or_directory).message());
  }
  if (std::filesystem::is_directory(path, ignored))
    fail(Code::FORMAT, "tensors", "a file of tensors must end in .safetensors or .npy but ", in_quotes(path_text(path)),
         " is a folder");
  return format_to_write(path);
}

Format format_to_write(const std::filesystem::path& path) {
  if (const std::optional<Format> format = known_format(path)) return *format;
  const Foreign* known = find_foreign(path);
  fail(Code::FORMAT, "tensors", "a file of tensors must end in .safetensors or .npy but got ",
       in_quotes(path_text(path)), known == nullptr ? "" : known->line);
}

bool names_tensors(const std::filesystem::path& path) {
  return known_format(path).has_value() || find_foreign(path) != nullptr;
}

std::string stream_name(const std::filesystem::path& path) {
  const bool standard = path == "-" || path == "/dev/stdin" || path == "/dev/fd/0" || path == "/proc/self/fd/0";
  return standard ? "standard input" : path_text(path);
}

std::vector<std::byte> read_stream(const std::filesystem::path& path, std::size_t most) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  const Source source(path);
  std::vector<std::byte> bytes;
  for (std::size_t size = 0;;) {
    bytes.resize(size + piece);
    const std::size_t count = source.read(std::span(bytes).subspan(size));
    size += count;
    bytes.resize(size);
    if (count == 0 || (size >= most && !format_of(bytes))) return bytes;
  }
}

std::optional<Format> format_of(std::span<const std::byte> bytes) noexcept {
  if (begins_with(bytes, "\x93NUMPY")) return Format::npy;
  if (is_safetensors(bytes) || begins_with(bytes, "PK\3\4")) return Format::safetensors;
  return std::nullopt;
}

std::string known_content(const InputFile& file) {
  std::array<std::byte, most_sniffed> bytes{};
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), bytes.size()));
  file.read(0, std::span(bytes).first(count));
  const std::string text = lower({reinterpret_cast<const char*>(bytes.data()), count});
  const std::size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  if (is_safetensors(std::span(bytes).first(count))) return "a safetensors file";
  for (const Content& known : contents) {
    if (std::string_view(text).substr(first).starts_with(known.begin)) return std::string(known.words) + known.line;
  }
  return "";
}

void write_to_standard_output(std::span<const std::byte> bytes) {
  if (!write_all(standard_output, bytes)) fail_with_reason("standard output: cannot be written");
}

// ---- a file or stream that is read tensor by tensor ----

bool is_dash(const std::filesystem::path& path) { return path == "-"; }

bool is_pipe(const std::filesystem::path& path) { return is_dash(path) || names_pipe(path); }

InputTensors::InputTensors(const std::filesystem::path& path) : name_(stream_name(path)) {
  if (is_pipe(path)) {
    take(read_stream(path));
  } else if (format_to_read(path) == Format::npy) {
    npy_ = read_npy(path);
  } else {
    safetensors_.emplace(path);
  }
  list();
}

InputTensors::InputTensors(std::vector<std::byte> whole, std::string name) : name_(std::move(name)) {
  take(std::move(whole));
  list();
}

void InputTensors::take(std::vector<std::byte> whole) {
  if (format_of(whole) == Format::npy) {
    npy_ = parse_npy(std::move(whole), name_);
  } else {
    safetensors_.emplace(std::move(whole), name_);
  }
}

void InputTensors::list() {
  if (npy_) {
    infos_.push_back(*npy_);
  } else {
    infos_ = safetensors_->tensors();
    metadata_ = safetensors_->metadata();
  }
}

Tensor InputTensors::read(const std::string& name) { return npy_ ? std::move(*npy_) : safetensors_->read(name); }

void InputTensors::save_changed(const std::filesystem::path& path, std::span<const Tensor* const> changed,
                                const std::map<std::string, std::string>& metadata) const {
  if (npy_ && is_dash(path)) {
    write_to_standard_output(bytes_of(npy_header(*changed.front())));
    write_to_standard_output(changed.front()->data);
  } else if (npy_) {
    write_npy(path, *changed.front());
  } else if (is_dash(path)) {
    safetensors_->copy(write_to_standard_output, changed, metadata);
  } else {
    write_whole("safetensors", path, [&](const Sink& sink) { safetensors_->copy(sink, changed, metadata); });
  }
}

std::string label(const TensorInfo& tensor) {
  return tensor.name.empty() ? "the tensor" : "tensor '" + tensor.name + "'";
}

const std::vector<std::string> layout_words = {"bthd", "bhtd", "tbhd", "thd", "htd", "td", "hd", "flat"};

Layout layout_of(std::string_view operation, const TensorInfo& tensor, const std::string& word, int head_dim) {
  const std::vector<std::int64_t>& size = tensor.shape;
  const bool flat = word == "flat";
  if (flat ? size.size() != 2 && size.size() != 3 : size.size() != word.size()) {
    fail(Code::SHAPE, operation, "layout ", word, " needs ", flat ? "2 or 3" : std::to_string(word.size()),
         " dimensions but ", label(tensor), " is ", detail::shape_text(size));
  }
  if (size.back() > std::numeric_limits<int>::max() && !flat) {
    fail(Code::SHAPE, operation, "head_dim must fit 32 bits but ", label(tensor), " is ", detail::shape_text(size));
  }
  if (flat) {
    if (head_dim < 1) fail(Code::SHAPE, operation, "layout flat needs a CONFIG, which says head_dim, but got none");
    if (size.back() % head_dim != 0) {
      fail(Code::SHAPE, operation, "layout flat needs a last dimension that is a multiple of head_dim ", head_dim,
           " but ", label(tensor), " is ", detail::shape_text(size));
    }
    const std::int64_t heads = size.back() / head_dim;
    return size.size() == 2 ? thd(size[0], heads, head_dim) : bthd(size[0], size[1], heads, head_dim);
  }
  const int last = static_cast<int>(size.back());
  if (word == "bhtd") return bhtd(size[0], size[1], size[2], last);
  if (word == "tbhd") return tbhd(size[0], size[1], size[2], last);
  if (word == "thd") return thd(size[0], size[1], last);
  if (word == "htd") return bhtd(1, size[0], size[1], last);
  if (word == "hd") return thd(1, size[0], last);
  if (word == "td") return thd(size[0], 1, last);
  return bthd(size[0], size[1], size[2], last);
}

}  // namespace files

std::vector<TensorInfo> tensor_infos(const std::filesystem::path& path) {
  if (files::format_to_read(path) == files::Format::npy) return {files::npy_info(path)};
  return SafetensorsFile(path).tensors();
}

std::map<std::string, std::string> tensor_metadata(const std::filesystem::path& path) {
  if (files::format_to_read(path) == files::Format::npy) {
    files::npy_info(path);
    return {};
  }
  return SafetensorsFile(path).metadata();
}

std::vector<Tensor> read_tensors(const std::filesystem::path& path) {
  std::vector<Tensor> tensors;
  if (files::format_to_read(path) == files::Format::npy) {
    tensors.push_back(read_npy(path));
    return tensors;
  }
  const SafetensorsFile file(path);
  for (const TensorInfo& info : file.tensors()) tensors.push_back(file.read(info.name));
  return tensors;
}

Tensor read_tensor(const std::filesystem::path& path, std::string_view name) {
  return files::format_to_read(path) == files::Format::npy ? read_npy(path) : SafetensorsFile(path).read(name);
}

void write_tensors(const std::filesystem::path& path, std::span<const Tensor> tensors,
                   const std::map<std::string, std::string>& metadata) {
  if (files::format_to_write(path) == files::Format::npy) {
    write_npy(path, files::only_of_npy(tensors, metadata));
    return;
  }
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  write_safetensors(path, pointers, metadata);
}

namespace detail {

void check_elements(const Tensor& tensor, ElementType wanted) {
  const std::string quoted = files::in_quotes(tensor.name);
  if (tensor.type != wanted) {
    fail(Code::DTYPE, "as", "tensor ", quoted, " must be ", name(wanted), " to be seen so but got ", name(tensor.type));
  }
  const std::optional<std::uint64_t> bits = files::checked_bits(tensor.type, tensor.shape);
  if (!bits || *bits / 8 != tensor.data.size()) {
    fail(Code::SHAPE, "as", "tensor ", quoted, " must hold the ", bits ? std::to_string(*bits / 8) : "2^64 or more",
         " bytes of its shape but has ", tensor.data.size());
  }
}

}  // namespace detail
}  // namespace rotary
