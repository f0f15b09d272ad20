// NEP 1 and numpy.lib.format: "\x93NUMPY", major, minor, the header's length, the header, the elements.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "formats.h"
#include "rotary/error.h"
#include "rotary/tensors.h"
#include "text/io.h"
#include "text/paths.h"
#include "values/fail.h"

namespace rotary {
namespace {

using files::in_quotes;

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t longest_header = 65536;
constexpr std::size_t alignment = 64;  // alignment of the data in the file

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// Parses headers such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: a fixed grammar, not Python.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : rest_(text), file_(file) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      entry();
      if (!accept(',') && peek() != '}') unexpected("',' or '}'");
    }
    if (peek() != '\0') unexpected("the header's end");
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!seen_[i]) fail("the header must have the key '" + std::string(keys[i]) + "' but it is missing");
    }
    return std::move(header_);
  }

 private:
  static constexpr std::array<std::string_view, 3> keys = {"descr", "fortran_order", "shape"};

  [[noreturn]] void fail(const std::string& rule) const { throw Error(Code::FORMAT, "npy", rule, file_); }
  [[noreturn]] void unexpected(const std::string& wanted) const {
    fail("the header must have " + wanted +
         (rest_.empty() ? " but ends" : " but got " + in_quotes(rest_.substr(0, 20))));
  }

  // The next character that is not white space; '\0' at the end (a 0 in the text has been refused before).
  char peek() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool accept(char c) {
    if (peek() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) unexpected(std::string("'") + c + "'");
  }
  bool accept_word(std::string_view word) {
    peek();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::string string(const char* wanted) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') unexpected(wanted);
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) unexpected(std::string(wanted) + " that ends");
    std::string text(rest_.substr(1, end - 1));
    if (text.find('\\') != std::string::npos) fail("the header's strings must be plain but got " + in_quotes(text));
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::int64_t size() {
    if (peek() == '-') fail("shape must not be negative but got " + in_quotes(rest_.substr(0, 20)));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error == std::errc::result_out_of_range) {
      fail("shape must hold integers below 2^63 but got " + in_quotes(rest_.substr(0, 20)));
    }
    if (error != std::errc{}) unexpected("an integer in shape");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    if (rest_.starts_with('L')) rest_.remove_prefix(1);  // Python 2's long
    return value;
  }

  void shape() {
    expect('(');
    bool comma = true;
    while (!accept(')')) {
      if (!comma) unexpected("',' or ')' in shape");
      if (header_.shape.size() == files::max_dimensions) {
        fail("shape must have at most " + std::to_string(files::max_dimensions) + " dimensions but got more");
      }
      header_.shape.push_back(size());
      comma = accept(',');
    }
    if (header_.shape.size() == 1 && !comma) fail("shape must be a tuple but got an integer in brackets");
  }

  void entry() {
    const std::string key = string("a key in quotes");
    const auto found = std::find(keys.begin(), keys.end(), key);
    if (found == keys.end()) fail("keys must be descr, fortran_order, shape but got " + in_quotes(key));
    if (std::exchange(seen_[static_cast<std::size_t>(found - keys.begin())], true)) {
      fail("'" + key + "' must appear once but appears again");
    }
    expect(':');
    if (key == "shape") {
      shape();
    } else if (key == "descr") {
      if (peek() == '[' || peek() == '(') fail("structured types are not supported but descr is one");
      header_.descr = string("a descr in quotes");
    } else if (accept_word("True")) {
      header_.fortran_order = true;
    } else if (!accept_word("False")) {
      unexpected("True or False for fortran_order");
    }
  }

  std::string_view rest_;
  const std::string& file_;
  NpyHeader header_;
  std::array<bool, 3> seen_{};
};

// The type, and whether it is big-endian.
std::pair<ElementType, bool> stored_type(const std::string& descr, const std::string& file) {
  const auto fail = [&](const std::string& rule) {
    throw Error(Code::FORMAT, "npy", rule + " but got " + in_quotes(descr), file);
  };
  const char order = descr.empty() ? '\0' : descr[0];
  if (order != '<' && order != '>' && order != '|') fail("descr must begin with <, > or |");
  const std::string_view kind = std::string_view(descr).substr(1);
  const std::optional<ElementType> type = files::find_numpy_type(kind);
  if (!type) {
    if (kind.starts_with('O')) fail("arrays of Python objects are not supported (reading them runs code)");
    if (kind.starts_with('U') || kind.starts_with('S') || kind.starts_with('a'))
      fail("arrays of strings are not supported");
    if (kind.starts_with('M') || kind.starts_with('m')) fail("arrays of dates and times are not supported");
    if (kind.starts_with('V')) fail("raw bytes have no element type (bf16 and the 8-bit floats: use .safetensors)");
    fail("descr must be b1, i1 to i8, u1 to u8, f2, f4, f8 or c8");
  }
  if (order == '|' && bits_of(*type) > 8) fail("descr must say the byte order");
  return {*type, order == '>'};
}

// The header's text and the offset of the data.
std::pair<std::string, std::uint64_t> read_header(const files::InputFile& file, const std::string& name) {
  const std::uint64_t size = file.size();
  const auto refuse = [&](const std::string& rule) { throw Error(Code::FORMAT, "npy", rule, name); };
  std::array<std::byte, 12> front{};
  const auto present = static_cast<std::size_t>(std::min<std::uint64_t>(size, front.size()));
  file.read(0, std::span(front).first(present));
  if (present < magic.size() || std::memcmp(front.data(), magic.data(), magic.size()) != 0) {
    const std::string content = files::known_content(file);
    refuse("a file must begin with \\x93NUMPY but this one of " + std::to_string(size) + " bytes does not" +
           (content.empty() ? "" : "; it is " + content));
  }
  const int major = std::to_integer<int>(front[6]);
  const int minor = std::to_integer<int>(front[7]);
  const std::size_t begin = major == 1 ? 10 : 12;
  if (present < begin) refuse("the header must be whole but the file ends within its length");
  if (major < 1 || major > 3 || minor != 0) {
    refuse("the version must be 1.0, 2.0 or 3.0 but got " + std::to_string(major) + "." + std::to_string(minor));
  }
  const std::uint64_t length = files::little_endian(std::span(front).subspan(8, begin - 8));
  const std::string says = " but its length says " + std::to_string(length);
  if (length > longest_header) refuse("the header must be at most " + std::to_string(longest_header) + " bytes" + says);
  if (length > size - begin) {
    refuse("the header must end within the file's " + std::to_string(size) + " bytes" + says);
  }
  std::string text(length, '\0');
  file.read(begin, std::as_writable_bytes(std::span(text)));
  if (text.find('\0') != std::string::npos) refuse("the header must be text but holds a byte 0");
  return {std::move(text), begin + length};
}

std::string written_header(const Tensor& tensor, const char* type) {
  const std::string sign = bits_of(tensor.type) > 8 ? "<" : "|";
  std::string text = "{'descr': '" + sign + type + "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    text += (i == 0 ? "" : " ") + std::to_string(tensor.shape[i]) + (i + 1 < tensor.shape.size() ? "," : "");
  }
  text += tensor.shape.size() == 1 ? ",), }" : "), }";
  if (!tensor.shape.empty()) {  // numpy leaves room for the first size to grow to 21 digits
    text.append(21 - std::to_string(tensor.shape[0]).size(), ' ');
  }
  const std::size_t front = magic.size() + 4;
  const std::size_t unpadded = front + text.size() + 1;
  text.append((alignment - unpadded % alignment) % alignment, ' ');
  text += '\n';
  const auto low = static_cast<char>(text.size() & 0xFF);
  const auto high = static_cast<char>(text.size() >> 8);
  return std::string(magic) + '\1' + '\0' + low + high + text;
}

std::vector<std::byte> in_c_order(std::span<const std::byte> fortran, const TensorInfo& info) {
  const std::size_t size = bits_of(info.type) / 8, dimensions = info.shape.size();
  std::vector<std::int64_t> strides(dimensions, 1), index(dimensions, 0);
  for (std::size_t d = 1; d < dimensions; ++d) strides[d] = strides[d - 1] * info.shape[d - 1];
  std::vector<std::byte> out(fortran.size());
  std::int64_t from = 0;
  for (std::size_t to = 0; to < out.size(); to += size) {
    std::memcpy(&out[to], &fortran[static_cast<std::size_t>(from) * size], size);
    for (std::size_t d = dimensions; d-- > 0;) {
      from += strides[d];
      if (++index[d] < info.shape[d]) break;
      from -= strides[d] * std::exchange(index[d], 0);
    }
  }
  return out;
}

void swap_bytes(std::span<std::byte> data, ElementType type) {
  const std::size_t size = type == ElementType::c64 ? 4 : bits_of(type) / 8;  // the real and the imaginary part
  for (std::size_t i = 0; i < data.size(); i += size) std::reverse(&data[i], &data[i] + size);
}

// The place and form of the elements in a file.
struct Stored {
  TensorInfo info;
  std::uint64_t begin = 0;
  bool fortran_order = false;
  bool big_endian = false;
};

Stored stored_in(const files::InputFile& file) {
  const std::string name = files::path_text(file.path());
  const auto [text, begin] = read_header(file, name);
  NpyHeader header = HeaderParser(text, name).parse();
  const auto [type, big_endian] = stored_type(header.descr, name);
  Stored stored{{"", type, std::move(header.shape)}, begin, header.fortran_order, big_endian};
  const std::optional<std::uint64_t> bits = files::checked_bits(stored.info.type, stored.info.shape);
  if (!bits) throw Error(Code::FORMAT, "npy", "the product of its shape must fit 64 bits but does not", name);
  stored.info.bytes = *bits / 8;
  if (stored.info.bytes != file.size() - begin) {
    throw Error(Code::FORMAT, "npy",
                "its shape takes " + std::to_string(stored.info.bytes) + " bytes but the file holds " +
                    std::to_string(file.size() - begin) + " behind the header",
                name);
  }
  return stored;
}

Tensor tensor_of(const files::InputFile& file) {
  Stored stored = stored_in(file);
  Tensor tensor{std::move(stored.info), {}};
  tensor.data.resize(tensor.bytes);
  file.read(stored.begin, tensor.data);
  if (stored.fortran_order) tensor.data = in_c_order(tensor.data, tensor);
  if (stored.big_endian) swap_bytes(tensor.data, tensor.type);
  return tensor;
}

}  // namespace

TensorInfo files::npy_info(const std::filesystem::path& path) {
  return stored_in(InputFile("npy", path)).info;
}

Tensor read_npy(const std::filesystem::path& path) { return tensor_of(files::InputFile("npy", path)); }

Tensor parse_npy(std::vector<std::byte> whole, const std::string& name) {
  return tensor_of(files::InputFile("npy", files::path_of(name), std::move(whole)));
}

std::string files::npy_header(const Tensor& tensor) {
  const char* type = files::numpy_name(tensor.type);
  if (type == nullptr) {
    fail(Code::FORMAT, "npy",
         "a type must have a spelling in .npy but " + std::string(name(tensor.type)) + " has none: use .safetensors");
  }
  files::check_whole("npy", tensor);
  return written_header(tensor, type);
}

const Tensor& files::only_of_npy(std::span<const Tensor> tensors, const std::map<std::string, std::string>& metadata) {
  if (tensors.size() == 1 && metadata.empty()) return tensors.front();
  fail(Code::FORMAT, "npy",
       "a file must hold one tensor and no metadata but got " + std::to_string(tensors.size()) +
           " tensors and metadata of " + std::to_string(metadata.size()) + " keys: use .safetensors");
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  const std::string header = files::npy_header(tensor);
  files::write_whole("npy", path, std::array{files::bytes_of(header), std::span<const std::byte>(tensor.data)});
}

}  // namespace rotary
