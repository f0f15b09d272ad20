// safetensors: the header, and the file after it.
#include "safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "formats.h"
#include "rotary/error.h"
#include "rotary/tensors.h"
#include "text/io.h"
#include "text/json.h"
#include "text/paths.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

using nlohmann::json;

constexpr std::string_view white_space = " \t\r\n";

// Accepts {"__metadata__": {key: text}, name: {"dtype": .., "shape": [..], "data_offsets": [b, e]}} while the parser
// runs. Anything else is refused at once, so nesting and memory are bounded by the header's length.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}
  Header take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) override { unexpected(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { unexpected(text); }
  bool binary(json::binary_t&) override { unexpected("binary"); }

  bool number_unsigned(std::uint64_t value) override {
    if (state_ == State::shape) {
      if (value > std::numeric_limits<std::int64_t>::max()) unexpected(std::to_string(value));
      if (entry_.info.shape.size() == max_dimensions) {
        fail_tensor("shape must have at most " + std::to_string(max_dimensions) + " dimensions but got more");
      }
      entry_.info.shape.push_back(static_cast<std::int64_t>(value));
    } else if (state_ == State::offsets) {
      if (offsets_ == 2) fail_tensor("data_offsets must be two numbers but got a third, " + std::to_string(value));
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    } else {
      unexpected(std::to_string(value));
    }
    return true;
  }

  bool string(std::string& value) override {
    if (state_ == State::metadata) {
      header_.metadata.emplace(key_, std::move(value));
    } else if (state_ == State::tensor && field_ == Field::dtype) {
      const std::optional<ElementType> type = find_element_type(value);
      if (!type) fail_tensor("dtype must be one of the 22 of the format but got " + in_quotes(value));
      entry_.info.type = *type;
    } else {
      unexpected(in_quotes(value));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::outside) {
      state_ = State::tensors;
    } else if (state_ == State::tensors) {
      const bool is_metadata = key_ == metadata_name;
      if (is_metadata && std::exchange(has_metadata_, true)) fail("__metadata__ must appear once but appears again");
      state_ = is_metadata ? State::metadata : State::tensor;
      entry_ = Entry{};
      entry_.info.name = key_;
      seen_ = {};
      offsets_ = 0;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::tensor) finish_tensor();
    state_ = state_ == State::tensors ? State::outside : State::tensors;
    return true;
  }

  bool key(std::string& key) override {
    if (state_ == State::tensor) {
      const auto found = std::find(field_names.begin(), field_names.end(), key);
      if (found == field_names.end()) fail_tensor("keys must be dtype, shape, data_offsets but got " + in_quotes(key));
      const auto field = static_cast<std::size_t>(found - field_names.begin());
      if (std::exchange(seen_[field], true)) fail_tensor(key + " must appear once but appears again");
      field_ = static_cast<Field>(field);
      return true;
    }
    if (state_ == State::metadata && header_.metadata.contains(key)) {
      fail("__metadata__ keys must appear once but " + in_quotes(key) + " appears again");
    }
    key_ = std::move(key);
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ == State::tensor && field_ == Field::shape) {
      state_ = State::shape;
    } else if (state_ == State::tensor && field_ == Field::data_offsets) {
      state_ = State::offsets;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    if (state_ == State::offsets && offsets_ != 2) {
      fail_tensor("data_offsets must be two numbers but got " + std::to_string(offsets_));
    }
    state_ = State::tensor;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    fail("the header must be JSON: " + reason_of(error));
  }

 private:
  enum class State { outside, tensors, metadata, tensor, shape, offsets };
  enum class Field { dtype, shape, data_offsets };
  static constexpr std::array<std::string_view, 3> field_names = {"dtype", "shape", "data_offsets"};

  [[noreturn]] void fail(const std::string& rule) const { throw Error(Code::FORMAT, "safetensors", rule, file_); }
  [[noreturn]] void fail_tensor(const std::string& rule) const {
    fail("tensor " + in_quotes(entry_.info.name) + ": " + rule);
  }

  [[noreturn]] void unexpected(const std::string& value) const {
    const std::string but_got = " but got " + value;
    switch (state_) {
      case State::outside:
        fail("the header must be an object" + but_got);
      case State::tensors:
        if (key_ == metadata_name) fail("__metadata__ must be an object" + but_got);
        fail("tensor " + in_quotes(key_) + ": must be an object" + but_got);
      case State::metadata:
        fail("__metadata__ " + in_quotes(key_) + ": must be a string" + but_got);
      case State::shape:
        fail_tensor("shape must hold integers from 0 to 2^63 - 1" + but_got);
      case State::offsets:
        fail_tensor("data_offsets must hold integers from 0 to 2^64 - 1" + but_got);
      case State::tensor:
        break;
    }
    constexpr std::array<const char*, 3> rules = {"dtype must be a string", "shape must be an array of integers",
                                                  "data_offsets must be an array of two integers"};
    fail_tensor(rules[static_cast<std::size_t>(field_)] + but_got);
  }

  void finish_tensor() {
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      if (!seen_[i]) fail_tensor(std::string(field_names[i]) + " is missing");
    }
    TensorInfo& info = entry_.info;
    if (entry_.begin > entry_.end) {
      fail_tensor("data_offsets must not go backwards but got [" + std::to_string(entry_.begin) + ", " +
                  std::to_string(entry_.end) + "]");
    }
    info.bytes = entry_.end - entry_.begin;
    const std::optional<std::uint64_t> bits = checked_bits(info.type, info.shape);
    if (!bits) fail_tensor("the product of its shape must fit 64 bits but does not");
    if (*bits % 8 != 0) fail_tensor("its elements must fill whole bytes but take " + std::to_string(*bits) + " bits");
    if (*bits / 8 != info.bytes) {
      fail_tensor("its shape takes " + std::to_string(*bits / 8) + " bytes but its data_offsets span " +
                  std::to_string(info.bytes));
    }
    header_.entries.push_back(std::move(entry_));
  }

  const std::string& file_;
  Header header_;
  State state_ = State::outside;
  Field field_ = Field::dtype;
  bool has_metadata_ = false;
  std::string key_;  // the last one outside of a tensor
  Entry entry_;      // the current tensor
  std::array<bool, 3> seen_{};
  int offsets_ = 0;
};

// Checks that names are unique and that tensors, by increasing begin, tile the data without hole or overlap.
void check_entries(const std::vector<Entry>& entries, std::uint64_t data_bytes, const std::string& file) {
  const auto refuse = [&file](const std::string& rule) { throw Error(Code::FORMAT, "safetensors", rule, file); };
  std::vector<std::string_view> names;
  for (const Entry& entry : entries) names.emplace_back(entry.info.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) refuse("tensor " + in_quotes(*twice) + ": a name must appear once but appears again");
  std::uint64_t next = 0;
  for (const auto& [info, begin, end] : entries) {
    const std::string tensor = "tensor " + in_quotes(info.name) + ": ";
    if (end > data_bytes) {
      refuse(tensor + "must end within the file's " + std::to_string(data_bytes) +
             " bytes of data but its data_offsets end at " + std::to_string(end));
    }
    if (begin != next) {
      refuse(tensor + "must begin at byte " + std::to_string(next) +
             ", where the tensor before it ends, but begins at " + std::to_string(begin) +
             (begin < next ? ": overlap" : ": hole"));
    }
    next = end;
  }
  if (next != data_bytes) {
    refuse("the tensors end at byte " + std::to_string(next) + " of the data but the file holds " +
           std::to_string(data_bytes));
  }
}

std::string json_string(const std::string& text, const char* what) {
  try {
    return json(text).dump();
  } catch (const json::type_error&) {
    fail(Code::FORMAT, "safetensors", std::string(what) + " must be UTF-8 but got " + in_quotes(text));
  }
}

// data_bytes: the bytes of the file after the header. path is for error sentences.
Header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& path) {
  const auto refuse = [&path](const std::string& rule) { throw Error(Code::FORMAT, "safetensors", rule, path); };
  const std::size_t first = text.find_first_not_of(white_space);
  if (first == std::string_view::npos || text[first] != '{') {
    const std::string got = first == std::string_view::npos ? "nothing" : in_quotes(text.substr(first, 1));
    refuse("the header must begin with { but got " + got);
  }
  const std::size_t nul = text.find('\0');  // the parser would take it for the end of the text
  if (nul != std::string_view::npos) {
    refuse("the header must be JSON but byte " + std::to_string(nul) + " of it is 0");
  }
  HeaderReader reader(path);
  json::sax_parse(text.begin(), text.end(), &reader);
  Header header = reader.take();
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_entries(header.entries, data_bytes, path);
  return header;
}

}  // namespace

FileHeader read_header(const InputFile& file) {
  const auto refuse = [&file](const std::string& rule) {
    const std::string content = known_content(file);
    const bool other = !content.empty() && content != "a safetensors file";
    fail(Code::FORMAT, "safetensors", path_text(file.path()) + ": " + rule + (other ? "; the file is " + content : ""));
  };
  const std::uint64_t size = file.size();
  std::array<std::byte, 8> front;
  if (size < front.size()) {
    refuse("a file must hold the 8 bytes of the header's length but has " + std::to_string(size));
  }
  file.read(0, front);
  const std::uint64_t length = little_endian(front);
  const std::string says = " but its length says " + std::to_string(length);
  if (length > longest_header) refuse("the header must be at most " + std::to_string(longest_header) + " bytes" + says);
  if (length > size - front.size()) {
    refuse("the header must end within the file's " + std::to_string(size) + " bytes" + says);
  }
  std::string json(length, '\0');
  file.read(front.size(), std::as_writable_bytes(std::span(json)));
  const std::uint64_t data = front.size() + length;
  return {data, parse_header(json, size - data, path_text(file.path()))};
}

std::string make_header(std::span<const Tensor* const> tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<TensorInfo> infos;
  for (const Tensor* tensor : tensors) {
    check_whole("safetensors", *tensor);
    infos.push_back(*tensor);
    infos.back().bytes = tensor->data.size();
  }
  std::vector<const TensorInfo*> pointers;
  for (const TensorInfo& info : infos) pointers.push_back(&info);
  return make_header(std::span<const TensorInfo* const>(pointers), metadata);
}

std::string make_header(std::span<const TensorInfo* const> tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = std::string(8, '\0') + "{";  // the length of the header, put in at the end
  const auto separate = [&text] {
    if (text.back() != '{') text += ',';
  };
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      separate();
      text += json_string(key, "a metadata key") + ":" + json_string(value, "a metadata value");
    }
    text += '}';
  }
  std::set<std::string_view> names{metadata_name};
  std::uint64_t offset = 0;
  for (const TensorInfo* tensor : tensors) {
    if (!names.insert(tensor->name).second) {
      fail(Code::FORMAT, "safetensors",
           "tensor " + in_quotes(tensor->name) + ": a name must be unique and not be " + std::string(metadata_name) +
               " but it is taken");
    }
    separate();
    const std::uint64_t end = offset + tensor->bytes;
    text += json_string(tensor->name, "a tensor's name") + ":{\"dtype\":\"" + name(tensor->type) +
            "\",\"shape\":" + json(tensor->shape).dump() + ",\"data_offsets\":[" + std::to_string(offset) + "," +
            std::to_string(end) + "]}";
    offset = end;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size() - 8;
  if (length > longest_header) {
    fail(Code::FORMAT, "safetensors",
         "the header must be at most " + std::to_string(longest_header) + " bytes but got " + std::to_string(length));
  }
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(length >> (8 * i) & 0xFF);
  return text;
}

}  // namespace rotary::files

namespace rotary {

using files::in_quotes;

struct [[gnu::visibility("hidden")]] SafetensorsFile::State {  // its functions are not exported
  template <class... Whole>
  explicit State(const std::filesystem::path& path, Whole... whole) : file("safetensors", path, std::move(whole)...) {
    read_header();
  }
  void read_header();
  Error error(Code code, const std::string& rule) const {
    return {code, "safetensors", rule, files::path_text(file.path())};
  }
  // Index into tensors, or tensors.size().
  std::size_t index_of(std::string_view name) const noexcept {
    const auto found = std::lower_bound(by_name.begin(), by_name.end(), name,
                                        [this](std::size_t i, std::string_view n) { return tensors[i].name < n; });
    return found != by_name.end() && tensors[*found].name == name ? *found : tensors.size();
  }

  // The names for an error sentence, in their order: the first of many.
  std::string names() const {
    constexpr std::size_t most = 12;
    std::string text;
    for (std::size_t i = 0; i < by_name.size() && i < most; ++i)
      text += (i == 0 ? "" : ", ") + tensors[by_name[i]].name;
    return tensors.empty() ? "none" : text + (tensors.size() > most ? ", ..." : "");
  }

  files::InputFile file;
  std::vector<TensorInfo> tensors;
  std::vector<std::uint64_t> begins;  // the place of each tensor's first byte in the file
  std::vector<std::size_t> by_name;
  std::map<std::string, std::string> metadata;
};

void SafetensorsFile::State::read_header() {
  files::FileHeader read = files::read_header(file);
  metadata = std::move(read.header.metadata);
  for (files::Entry& entry : read.header.entries) {
    tensors.push_back(std::move(entry.info));
    begins.push_back(read.data + entry.begin);
  }
  by_name.resize(tensors.size());
  std::iota(by_name.begin(), by_name.end(), std::size_t{0});
  std::sort(by_name.begin(), by_name.end(),
            [this](std::size_t a, std::size_t b) { return tensors[a].name < tensors[b].name; });
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
SafetensorsFile::SafetensorsFile(std::vector<std::byte> whole, const std::string& name)
    : state_(std::make_unique<State>(files::path_of(name), std::move(whole))) {}

SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;

const std::vector<TensorInfo>& SafetensorsFile::tensors() const noexcept { return state_->tensors; }

const std::map<std::string, std::string>& SafetensorsFile::metadata() const noexcept { return state_->metadata; }

const TensorInfo* SafetensorsFile::find(std::string_view name) const noexcept {
  const std::size_t index = state_->index_of(name);
  return index < state_->tensors.size() ? &state_->tensors[index] : nullptr;
}

Tensor SafetensorsFile::read(std::string_view name) const {
  const std::size_t index = state_->index_of(name);
  if (index == state_->tensors.size())
    throw state_->error(Code::TENSOR, "no tensor is named " + in_quotes(name) + "; it holds " + state_->names() +
                                          (name.find(',') < name.size() ? " (separate names by spaces)" : ""));
  Tensor tensor{state_->tensors[index], {}};
  tensor.data.resize(tensor.bytes);
  state_->file.read(state_->begins[index], tensor.data);
  return tensor;
}

void SafetensorsFile::copy(const std::function<void(std::span<const std::byte>)>& sink,
                           std::span<const Tensor* const> changed,
                           const std::map<std::string, std::string>& metadata) const {
  std::vector<const Tensor*> in_place(state_->tensors.size(), nullptr);
  for (const Tensor* tensor : changed) {
    const std::size_t index = state_->index_of(tensor->name);
    const std::string what = "tensor " + in_quotes(tensor->name) + ": ";
    if (index == in_place.size())
      throw state_->error(Code::TENSOR, what + "a changed tensor must be one of the file's");
    const bool whole =
        tensor->data.size() == tensor->bytes &&
        tensor->data.size() * 8 == static_cast<std::uint64_t>(tensor->elements()) * bits_of(tensor->type);
    if (tensor->type != state_->tensors[index].type || !whole)
      throw state_->error(Code::SHAPE, what + "a changed tensor must keep its type, and its data must fit its shape");
    in_place[index] = tensor;
  }
  std::vector<const TensorInfo*> infos;
  for (std::size_t i = 0; i < in_place.size(); ++i)
    infos.push_back(in_place[i] != nullptr ? in_place[i] : &state_->tensors[i]);
  sink(files::bytes_of(files::make_header(infos, metadata)));
  for (std::size_t i = 0; i < infos.size(); ++i) {
    if (in_place[i] != nullptr) {
      sink(in_place[i]->data);
    } else {
      state_->file.copy(state_->begins[i], state_->begins[i] + infos[i]->bytes, sink);
    }
  }
}

void write_safetensors(const std::filesystem::path& path, std::span<const Tensor* const> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = files::make_header(tensors, metadata);
  std::vector<std::span<const std::byte>> parts{files::bytes_of(header)};
  for (const Tensor* tensor : tensors) parts.emplace_back(tensor->data);
  files::write_whole("safetensors", path, parts);
}

}  // namespace rotary
