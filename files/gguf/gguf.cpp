#include "gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "rotary/error.h"
#include "tensors/formats.h"
#include "text/io.h"
#include "text/paths.h"

namespace rotary::files {
namespace {

constexpr std::uint64_t max_keys = 1u << 16;
constexpr std::uint64_t max_tensors = 1u << 20;
constexpr std::uint64_t longest_text = 16u << 20;
constexpr std::uint64_t longest_name = 65535;  // the format's limit
constexpr std::uint64_t longest_kept_array = 4096;
constexpr std::uint64_t most_kept_values = 1u << 20;  // in all arrays together
constexpr int deepest_array = 4;
constexpr std::uint32_t max_axes = 4;  // ggml's limit

enum ValueType : std::uint32_t { text = 8, array = 9, value_types = 13 };  // the others: value_rows

Error error_in(const InputFile& file, Code code, const std::string& rule) {
  return {code, "read_config", rule, path_text(file.path())};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = first_character(text).length;
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Reads forward through a window, never past the end of the file.
class Cursor {
 public:
  explicit Cursor(const InputFile& file) : file_(file) {}

  std::uint64_t position() const noexcept { return position_; }
  std::uint64_t left() const noexcept { return file_.size() - position_; }
  [[noreturn]] void fail(const std::string& sentence) const { throw error_in(file_, Code::FORMAT, sentence); }

  void need(std::uint64_t bytes, const std::string& what) const {
    if (bytes > left()) {
      fail(what + " must end within the file's " + std::to_string(file_.size()) + " bytes but takes " +
           std::to_string(bytes) + " from byte " + std::to_string(position_));
    }
  }

  // Requires at least `least` bytes for each of `count` items.
  void need_each(std::uint64_t count, std::uint64_t least, const std::string& what) const {
    if (count > left() / least) {
      fail("the number of " + what + " must fit the " + std::to_string(left()) + " bytes that are left but is " +
           std::to_string(count));
    }
  }

  void skip(std::uint64_t bytes, const std::string& what) {
    need(bytes, what);
    position_ += bytes;
  }

  void bytes(std::span<std::byte> out, const std::string& what) {
    need(out.size(), what);
    if (out.size() > window_.size()) {
      file_.read(position_, out);
    } else {
      if (position_ < begin_ || position_ + out.size() > begin_ + filled_) fill();
      std::memcpy(out.data(), window_.data() + (position_ - begin_), out.size());
    }
    position_ += out.size();
  }

  template <typename T>
  T take(const std::string& what) {
    static_assert(std::endian::native == std::endian::little);
    T value{};
    bytes(std::as_writable_bytes(std::span(&value, 1)), what);
    return value;
  }

  std::string take_text(const std::string& what, std::uint64_t longest) {
    const auto length = take<std::uint64_t>("the length of " + what);
    need(length, what);
    if (length > longest) {
      fail(what + " must be at most " + std::to_string(longest) + " bytes but has " + std::to_string(length));
    }
    std::string text(static_cast<std::size_t>(length), '\0');
    if (length > 0) bytes(std::as_writable_bytes(std::span(text)), what);
    if (!is_utf8(text)) fail(what + " must be UTF-8 but is " + in_quotes(text));
    return text;
  }

 private:
  void fill() {
    begin_ = position_;
    filled_ = std::min<std::uint64_t>(window_.size(), left());
    file_.read(begin_, std::span(window_).first(static_cast<std::size_t>(filled_)));
  }

  const InputFile& file_;
  std::uint64_t position_ = 0;
  std::vector<std::byte> window_ = std::vector<std::byte>(64 * 1024);
  std::uint64_t begin_ = 0;
  std::uint64_t filled_ = 0;
};

std::uint32_t take_type(Cursor& cursor, const std::string& what) {
  const auto type = cursor.take<std::uint32_t>("the type of " + what);
  if (type >= value_types) {
    cursor.fail("the type of " + what + " must be below " + std::to_string(value_types) + " but is " +
                std::to_string(type));
  }
  return type;
}

// ---- values ----

template <class T>
Json take_number(Cursor& cursor, const std::string& what) {
  return cursor.take<T>(what);
}

Json take_boolean(Cursor& cursor, const std::string& what) {
  const auto value = cursor.take<std::uint8_t>(what);
  if (value > 1) cursor.fail(what + " must be true (1) or false (0) but is " + std::to_string(value));
  return value == 1;
}

Json take_long_text(Cursor& cursor, const std::string& what) { return cursor.take_text(what, longest_text); }

struct ValueRow {
  std::uint64_t least_bytes;  // one value's in a file; the smallest size of a text or an array
  Json (*take)(Cursor&, const std::string& what);
};
constexpr std::array<ValueRow, value_types> value_rows = {{{1, take_number<std::uint8_t>},
                                                           {1, take_number<std::int8_t>},
                                                           {2, take_number<std::uint16_t>},
                                                           {2, take_number<std::int16_t>},
                                                           {4, take_number<std::uint32_t>},
                                                           {4, take_number<std::int32_t>},
                                                           {4, take_number<float>},
                                                           {1, take_boolean},
                                                           {8, take_long_text},
                                                           {12, nullptr},
                                                           {8, take_number<std::uint64_t>},
                                                           {8, take_number<std::int64_t>},
                                                           {8, take_number<double>}}};

// kept: the values of the arrays so far that are in memory.
Json take_array(Cursor& cursor, const std::string& what, int depth, std::uint64_t& kept) {
  if (depth > deepest_array) {
    cursor.fail("the arrays of " + what + " must lie at most " + std::to_string(deepest_array) +
                " deep in each other but lie deeper");
  }
  const std::uint32_t type = take_type(cursor, "the elements of " + what);
  const auto count = cursor.take<std::uint64_t>("the length of " + what);
  cursor.need_each(count, value_rows[type].least_bytes, "elements of " + what);
  if (type == array) {
    for (std::uint64_t i = 0; i < count; ++i) take_array(cursor, what, depth + 1, kept);
  } else if (type == text) {
    for (std::uint64_t i = 0; i < count; ++i) {
      cursor.skip(cursor.take<std::uint64_t>("a text of " + what), "a text of " + what);
    }
  } else if (count > longest_kept_array || kept + count > most_kept_values) {
    cursor.skip(count * value_rows[type].least_bytes, what);
  } else {
    kept += depth == 1 ? count : 0;  // an array in an array is dropped
    Json values = Json::array();
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(value_rows[type].take(cursor, what));
    return values;
  }
  return "an array of " + std::to_string(count) + (type == text ? " texts" : type == array ? " arrays" : " numbers");
}

struct GgmlType {
  std::uint32_t number;
  std::uint32_t elements;
  std::uint32_t bytes;
};

// Elements and bytes of one block of each type. gguf 0.19, GGML_QUANT_SIZES.
constexpr std::array ggml_types = std::to_array<GgmlType>(
    {{0, 1, 4},      {1, 1, 2},     {2, 32, 18},    {3, 32, 20},    {6, 32, 22},    {7, 32, 24},    {8, 32, 34},
     {9, 32, 40},    {10, 256, 84}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176}, {14, 256, 210}, {15, 256, 292},
     {16, 256, 66},  {17, 256, 74}, {18, 256, 98},  {19, 256, 50},  {20, 32, 18},   {21, 256, 110}, {22, 256, 82},
     {23, 256, 136}, {24, 1, 1},    {25, 1, 2},     {26, 1, 4},     {27, 1, 8},     {28, 1, 8},     {29, 256, 56},
     {30, 1, 2},     {34, 256, 54}, {35, 256, 66},  {39, 32, 17},   {40, 64, 36},   {41, 128, 18}});

std::uint64_t tensor_bytes(const Cursor& cursor, const GgufTensor& tensor, const std::string& what) {
  std::uint64_t elements = 1;
  for (const std::int64_t axis : tensor.shape) {
    const auto length = static_cast<std::uint64_t>(axis);
    if (length != 0 && elements > (std::uint64_t{1} << 56) / length) {
      cursor.fail("the elements of " + what + " must be at most 2^56 but are more");
    }
    elements *= length;
  }
  const auto* const type = std::ranges::find(ggml_types, tensor.type, &GgmlType::number);
  if (type == ggml_types.end()) return 0;  // a type that is newer than the list
  const std::uint64_t row = tensor.shape.empty() ? 1 : static_cast<std::uint64_t>(tensor.shape.front());
  if (row % type->elements != 0) {
    cursor.fail("the first axis of " + what + " must be a multiple of its type's " + std::to_string(type->elements) +
                " but is " + std::to_string(row));
  }
  return elements / type->elements * type->bytes;
}

GgufTensor take_tensor(Cursor& cursor, const std::string& what) {
  GgufTensor tensor;
  const auto axes = cursor.take<std::uint32_t>("the axes of " + what);
  if (axes > max_axes) cursor.fail(what + " must have at most 4 axes but has " + std::to_string(axes));
  for (std::uint32_t i = 0; i < axes; ++i) {
    tensor.shape.push_back(cursor.take<std::int64_t>("the shape of " + what));
    if (tensor.shape.back() < 0) {
      cursor.fail("an axis of " + what + " must be below 2^63 but is " +
                  std::to_string(static_cast<std::uint64_t>(tensor.shape.back())));
    }
  }
  tensor.type = cursor.take<std::uint32_t>("the type of " + what);
  tensor.offset = cursor.take<std::uint64_t>("the offset of " + what);
  tensor.bytes = tensor_bytes(cursor, tensor, what);
  return tensor;
}

void check_version(Cursor& cursor) {
  cursor.skip(4, "the magic");
  const auto version = cursor.take<std::uint32_t>("the version");
  if ((version & 0xFFFFu) == 0 && version != 0) {
    cursor.fail("a GGUF file must be little-endian but this one is big-endian");
  }
  if (version != 2 && version != 3) {
    cursor.fail("the version of GGUF must be 2 or 3 but is " + std::to_string(version));
  }
}

void check_count(const Cursor& cursor, std::uint64_t count, std::uint64_t max, std::uint64_t least,
                 const std::string& what) {
  cursor.need_each(count, least, what);
  if (count > max) {
    cursor.fail("the number of " + what + " must be at most " + std::to_string(max) + " but is " +
                std::to_string(count));
  }
}

struct FloatType {
  std::uint32_t type;  // ggml's
  ElementType element;
};
constexpr FloatType float_types[] = {
    {0, ElementType::f32}, {1, ElementType::f16}, {28, ElementType::f64}, {30, ElementType::bf16}};

}  // namespace

bool is_gguf(const InputFile& file) {
  std::array<char, 4> magic{};
  if (file.size() < magic.size()) return false;
  file.read(0, std::as_writable_bytes(std::span(magic)));
  return std::string_view(magic.data(), magic.size()) == "GGUF";
}

Gguf::Gguf(const InputFile& file) : file_(file) {
  Cursor cursor(file);
  check_version(cursor);
  const auto tensors = cursor.take<std::uint64_t>("the number of tensors");
  const auto keys = cursor.take<std::uint64_t>("the number of metadata keys");
  check_count(cursor, tensors, max_tensors, 24, "tensors");
  check_count(cursor, keys, max_keys, 13, "metadata keys");
  std::uint64_t kept = 0;
  for (std::uint64_t i = 0; i < keys; ++i) {
    const std::string key = cursor.take_text("a metadata key", longest_name);
    const std::string what = "the value of " + in_quotes(key);
    if (metadata_.contains(key))
      cursor.fail("a metadata key must appear once but " + in_quotes(key) + " appears again");
    const std::uint32_t type = take_type(cursor, what);
    metadata_[key] = type == array ? take_array(cursor, what, 1, kept) : value_rows[type].take(cursor, what);
  }
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const std::string name = cursor.take_text("a tensor's name", longest_name);
    if (tensors_.count(name) != 0)
      cursor.fail("a tensor's name must appear once but " + in_quotes(name) + " appears again");
    tensors_.emplace(name, take_tensor(cursor, "tensor " + in_quotes(name)));
  }
  check_tensors(cursor.position());
}

// Changes the tensors' offsets, which the file counts from the end of the header, to offsets from the file's beginning.
void Gguf::check_tensors(std::uint64_t header_bytes) {
  const auto fail = [this](const std::string& sentence) { throw error_in(file_, Code::FORMAT, sentence); };
  std::uint64_t alignment = 32;
  if (const auto given = metadata_.find("general.alignment"); given != metadata_.end()) {
    const bool whole = given->is_number_unsigned();
    alignment = whole ? given->get<std::uint64_t>() : 0;
    if (!std::has_single_bit(alignment) || alignment < 8 || alignment > (1u << 30)) {
      fail("general.alignment must be a power of two from 8 to 2^30 but is " + shown(*given));
    }
  }
  const std::uint64_t begin = (header_bytes + alignment - 1) / alignment * alignment;
  const std::uint64_t room = file_.size() > begin ? file_.size() - begin : 0;
  std::vector<std::pair<std::uint64_t, const std::string*>> order;
  for (auto& [name, tensor] : tensors_) {
    const std::string what = "tensor " + in_quotes(name);
    if (tensor.offset % alignment != 0) {
      fail("the offset of " + what + " must be a multiple of " + std::to_string(alignment) + " but is " +
           std::to_string(tensor.offset));
    }
    if (tensor.offset > room || tensor.bytes > room - tensor.offset) {
      fail(what + " must end within the " + std::to_string(room) + " bytes of data but takes " +
           std::to_string(tensor.bytes) + " from byte " + std::to_string(tensor.offset));
    }
    tensor.offset += begin;
    if (tensor.bytes > 0) order.emplace_back(tensor.offset, &name);
  }
  std::sort(order.begin(), order.end());
  for (std::size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = tensors_.at(*order[i - 1].second);
    if (before.offset + before.bytes > order[i].first) {
      fail("tensors must not overlap but " + in_quotes(*order[i - 1].second) + " and " + in_quotes(*order[i].second) +
           " do");
    }
  }
}

const GgufTensor* Gguf::find(const std::string& name) const noexcept {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::vector<double> Gguf::numbers(const std::string& name, std::int64_t max) const {
  const auto fail = [&](const std::string& rule) {
    throw error_in(file_, Code::TENSOR, "tensor " + in_quotes(name) + ' ' + rule);
  };
  const GgufTensor* tensor = find(name);
  if (tensor == nullptr) throw error_in(file_, Code::TENSOR, "no tensor is named " + in_quotes(name));
  if (tensor->shape.size() != 1) fail("must have one axis but has " + std::to_string(tensor->shape.size()));
  if (tensor->shape.front() > max) {
    fail("must have at most " + std::to_string(max) + " elements but has " + std::to_string(tensor->shape.front()));
  }
  const auto* const type = std::find_if(std::begin(float_types), std::end(float_types),
                                        [tensor](const FloatType& row) { return row.type == tensor->type; });
  if (type == std::end(float_types)) {
    fail("must be of type F32, F16, BF16 or F64 but is of ggml type " + std::to_string(tensor->type));
  }
  Tensor floats;
  floats.name = name;
  floats.type = type->element;
  floats.shape = {tensor->shape.front()};
  floats.bytes = tensor->bytes;
  floats.data.resize(static_cast<std::size_t>(tensor->bytes));
  file_.read(tensor->offset, floats.data);
  return numbers_of(floats);
}

}  // namespace rotary::files
