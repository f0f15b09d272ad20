// Zip (PKWARE's APPNOTE 4.3) as numpy.savez and torch.save write it, and the pickle of the latter, read as data:
// nothing is imported or called.
#include "archive.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "element_types.h"
#include "files/text/paths.h"
#include "rotary/error.h"

namespace rotary::files {
namespace {

// Bytes of a file: little-endian numbers and texts, one after the other.
class Record {
 public:
  Record(const InputFile& file, std::uint64_t begin, std::uint64_t bytes, std::string where)
      : where_(std::move(where)) {
    constexpr std::uint64_t most = std::uint64_t{1} << 24;  // no directory or pickle of tensors is as long
    if (begin > file.size() || bytes > file.size() - begin || bytes > most)
      refuse("a zip archive must be whole but a record of it lies outside the file");
    bytes_.resize(bytes);
    file.read(begin, std::as_writable_bytes(std::span(bytes_)));
  }
  std::string_view rest() const { return std::string_view(bytes_).substr(at_); }
  std::string_view text(std::uint64_t bytes) {
    if (bytes > bytes_.size() - at_) refuse("a record must be whole but ends too soon");
    return std::string_view(bytes_).substr(std::exchange(at_, at_ + bytes), bytes);
  }
  std::uint64_t number(std::uint64_t bytes) { return little_endian(files::bytes_of(text(bytes))); }  // up to 8
  [[noreturn]] void refuse(const std::string& rule) const { throw Error(Code::FORMAT, where_ + rule); }

 private:
  std::string bytes_, where_;
  std::size_t at_ = 0;
};

// ---- zip ----

struct ZipEntry {
  std::string name;
  std::uint64_t begin = 0, bytes = 0;
};

// As the record at the end says, or that of zip64, which a locator before it names.
Record directory_of(const InputFile& file, const std::string& where) {
  const std::uint64_t most = std::min<std::uint64_t>(file.size(), 65535 + 22 + 20);  // comment, record and locator
  Record tail(file, file.size() - most, most, where);
  const std::string_view text = tail.rest();
  const std::size_t end = text.rfind("PK\5\6");
  if (end == std::string_view::npos) tail.refuse("a zip archive must be whole but its directory is missing");
  const bool wide = end >= 20 && text.substr(end - 20, 4) == "PK\6\7";
  tail.text(wide ? end - 12 : end + 12);
  const std::uint64_t first = tail.number(wide ? 8 : 4);
  if (!wide) return {file, tail.number(4), first, where};
  Record record(file, first, 56, where);
  record.text(40);
  const std::uint64_t bytes = record.number(8);
  return {file, record.number(8), bytes, where};
}

ZipEntry next_entry(Record& list, const InputFile& file, const std::string& where) {
  if (list.text(4) != "PK\1\2") list.refuse("a zip archive must list its entries but its directory is damaged");
  list.text(6);
  const bool packed = list.number(2) != 0;
  list.text(8);
  std::uint64_t packed_bytes = list.number(4), bytes = list.number(4);
  const std::uint64_t name = list.number(2), extra = list.number(2), comment = list.number(2);
  list.text(8);
  std::uint64_t begin = list.number(4);
  ZipEntry entry{std::string(list.text(name))};
  if (list.rest().size() < extra) list.refuse("a record must be whole but ends too soon");
  for (const std::size_t end = list.rest().size() - extra; list.rest().size() > end;) {
    const bool wide = list.number(2) == 1;  // zip64: what does not fit 32 bits
    std::uint64_t left = list.number(2);
    for (std::uint64_t* value : {&bytes, &packed_bytes, &begin}) {
      if (!wide || *value != 0xFFFFFFFF || left < 8) continue;
      *value = list.number(8);
      left -= 8;
    }
    list.text(left);
  }
  list.text(comment);
  const std::string must = "entry " + in_quotes(entry.name) + " must ";
  if (packed) list.refuse(must + "be stored as it is but is compressed: numpy.savez stores, savez_compressed does not");
  Record own(file, begin, 30, where);
  const bool begins = own.text(4) == "PK\3\4";
  own.text(22);
  entry.begin = begin + 30 + own.number(2);
  entry.begin += own.number(2);
  entry.bytes = bytes;
  if (!begins || entry.begin > file.size() || bytes > file.size() - entry.begin)
    list.refuse(must + "lie within the file but does not");
  return entry;
}

// ---- torch.save ----

const std::map<std::string, ElementType> storage_types = {
    {"torch FloatStorage", ElementType::f32},       {"torch BFloat16Storage", ElementType::bf16},
    {"torch HalfStorage", ElementType::f16},        {"torch DoubleStorage", ElementType::f64},
    {"torch LongStorage", ElementType::i64},        {"torch IntStorage", ElementType::i32},
    {"torch ShortStorage", ElementType::i16},       {"torch CharStorage", ElementType::i8},
    {"torch ByteStorage", ElementType::u8},         {"torch BoolStorage", ElementType::boolean},
    {"torch ComplexFloatStorage", ElementType::c64}};

using Items = std::vector<std::size_t>;  // indices of values

// A tuple is a list, as is what names a storage.
enum class Kind : std::uint8_t { plain, number, text, list, dict, call };
struct Value {
  Kind kind = Kind::plain;
  std::int64_t number = 0;
  std::string text = {};
  Items items = {};  // of a dict key, value, key, value ...; of a call the function's name and its arguments
};

class Pickle {
 public:
  Pickle(Record code, std::map<std::string, ZipEntry> storages)
      : code_(std::move(code)), storages_(std::move(storages)) {}

  std::vector<StoredTensor> tensors() {
    for (std::uint64_t what = code_.number(1); what != '.'; what = code_.number(1)) step(what);
    collect(values_[pop()], "", 0);
    return std::move(found_);
  }

 private:
  [[noreturn]] void refuse(const std::string& is = "is damaged") const {
    code_.refuse("data.pkl must hold tensors alone, in dicts, lists and tuples, as torch.save writes them, but " + is +
                 " (of a model save the state_dict())");
  }

  // ---- the machine of pickle, with the instructions that these files need: each makes one value at most ----

  void push(Value value) {
    stack_.push_back(values_.size());
    values_.push_back(std::move(value));
  }
  std::size_t pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse();
    const std::size_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Items last(std::size_t count) {
    Items items(count);
    while (count-- > 0) items[count] = pop();
    return items;
  }
  Items since_mark() {
    if (marks_.empty()) refuse();
    Items items = last(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }
  void add(Kind kind, const Items& items) {
    const std::size_t to = pop();
    if (values_[to].kind != kind || (kind == Kind::dict && items.size() % 2 != 0)) refuse();
    values_[to].items.insert(values_[to].items.end(), items.begin(), items.end());
    stack_.push_back(to);
  }
  void remember(std::uint64_t key) { stack_.push_back(memo_[key] = pop()); }
  void recall(std::uint64_t key) {
    if (!memo_.contains(key)) refuse();
    stack_.push_back(memo_[key]);
  }
  void push_number(std::uint64_t bytes) {
    if (bytes > 8) refuse();
    std::uint64_t value = code_.number(bytes);
    const bool negative = bytes > 2 && (value >> (8 * bytes - 1)) != 0;
    if (negative && bytes < 8) value -= std::uint64_t{1} << (8 * bytes);
    push({Kind::number, static_cast<std::int64_t>(value)});
  }
  std::string line() {
    std::string text(code_.text(std::min(code_.rest().find('\n'), code_.rest().size())));
    code_.text(1);
    return text;
  }
  void call(const Items& called) {
    push({values_[called[0]].text == "collections OrderedDict" ? Kind::dict : Kind::call});
    if (values_.back().kind == Kind::call) values_.back().items = called;
  }

  void step(std::uint64_t what) {
    if (what == 0x80) return void(code_.number(1));  // the protocol's version
    if (what == '(') return marks_.push_back(stack_.size());
    if (what == '}') return push({Kind::dict});
    if (what == ']' || what == ')') return push({Kind::list});
    if (what == 'N' || what == 0x88 || what == 0x89) return push({});  // None, True, False
    if (what == 'G') return code_.text(8), push({});                   // a float
    if (what == 'K' || what == 'M' || what == 'J') return push_number(what == 'K' ? 1 : what == 'M' ? 2 : 4);
    if (what == 0x8A) return push_number(code_.number(1));
    if (what == 'X') return push({Kind::text, 0, std::string(code_.text(code_.number(4)))});
    if (what == 'q' || what == 'r') return remember(code_.number(what == 'q' ? 1 : 4));
    if (what == 'h' || what == 'j') return recall(code_.number(what == 'h' ? 1 : 4));
    if (what == 't') return push({Kind::list, 0, {}, since_mark()});
    if (what >= 0x85 && what <= 0x87) return push({Kind::list, 0, {}, last(what - 0x84)});
    if (what == 's' || what == 'u') return add(Kind::dict, what == 's' ? last(2) : since_mark());
    if (what == 'a' || what == 'e') return add(Kind::list, what == 'a' ? last(1) : since_mark());
    if (what == 'b') return void(pop());  // attributes of a dict or a tensor
    if (what == 'c') return push({Kind::text, 0, line()}), void(values_.back().text += " " + line());  // module name
    if (what == 'Q') return;  // ("storage", type, name, device, elements) names a storage
    if (what == 'R') return call(last(2));
    refuse("has the instruction " + std::to_string(what));
  }

  // ---- its tensors ----

  const Value& item(const Value& of, std::size_t i, Kind kind) const {
    if (i >= of.items.size() || values_[of.items[i]].kind != kind) refuse();
    return values_[of.items[i]];
  }
  std::vector<std::int64_t> numbers(const Value& list) const {
    std::vector<std::int64_t> numbers;
    if (list.items.size() > max_dimensions) refuse();
    for (std::size_t i = 0; i < list.items.size(); ++i) numbers.push_back(item(list, i, Kind::number).number);
    return numbers;
  }

  // What stands in several places is found in each. Plain values are left out.
  void collect(const Value& value, const std::string& name, int depth) {
    named_ += 100 + name.size();
    if (depth > 64 || named_ > (std::size_t{1} << 26)) refuse("has too many or too deep ones");
    if (value.kind == Kind::call) return collect_call(value, name, depth);
    const bool dict = value.kind == Kind::dict;
    for (std::size_t i = 0; (dict || value.kind == Kind::list) && i < value.items.size(); ++i) {
      std::string own = std::to_string(i);
      if (dict) {
        const bool counted = values_[value.items[i]].kind == Kind::number;
        own = counted ? std::to_string(item(value, i, Kind::number).number) : item(value, i, Kind::text).text;
        ++i;
      }
      collect(values_[value.items[i]], name.empty() ? own : name + "." + own, depth + 1);
    }
  }

  void collect_call(const Value& call, const std::string& name, int depth) {
    const std::string& function = item(call, 0, Kind::text).text;
    const Value& of = item(call, 1, Kind::list);
    if (function == "torch Size" || function == "torch device") return;
    if (function == "torch._utils _rebuild_parameter") return collect(item(of, 0, Kind::call), name, depth + 1);
    if (function != "torch._utils _rebuild_tensor_v2")
      refuse(in_quotes(name) + " is a " + in_quotes(function) + " of Python");
    const Value& storage = item(of, 0, Kind::list);
    const auto type = storage_types.find(item(storage, 1, Kind::text).text);
    const auto entry = storages_.find(item(storage, 2, Kind::text).text);
    if (type == storage_types.end())
      refuse(in_quotes(name) + " is of a " + in_quotes(item(storage, 1, Kind::text).text));
    if (entry == storages_.end()) refuse(in_quotes(name) + " has no storage in the file");
    StoredTensor tensor{{name, type->second, numbers(item(of, 2, Kind::list))}, entry->second.begin};
    tensor.strides = numbers(item(of, 3, Kind::list));
    if (!settle(tensor, static_cast<std::uint64_t>(item(of, 1, Kind::number).number), entry->second.bytes)) {
      code_.refuse("tensor " + in_quotes(name) +
                   " must have all its elements in the file but has not (of a view as of expand() save contiguous())");
    }
    found_.push_back(std::move(tensor));
  }

  // Of a tensor that begins at the element `first` of a storage. False: it is not within its bytes.
  static bool settle(StoredTensor& tensor, std::uint64_t first, std::uint64_t bytes) {
    TensorInfo& info = tensor.info;
    const std::uint64_t size = bits_of(info.type) / 8, there = bytes / size;
    const std::optional<std::uint64_t> bits = checked_bits(info.type, info.shape);
    if (!bits || *bits / 8 > bytes || info.shape.size() != tensor.strides.size() || first > there) return false;
    info.bytes = *bits / 8;
    tensor.begin += first * size;
    bool row_major = true;
    std::uint64_t left = there - first, dense = 1;  // left: elements from the one at the index so far on
    for (std::size_t d = info.shape.size(); info.bytes > 0 && d-- > 0;) {
      const auto steps = static_cast<std::uint64_t>(info.shape[d]) - 1,
                 stride = static_cast<std::uint64_t>(tensor.strides[d]);
      if (steps == 0) tensor.strides[d] = 0;
      if (steps > 0 && (left == 0 || stride > (left - 1) / steps)) return false;
      left -= steps * stride;
      row_major = row_major && (steps == 0 || stride == dense);
      dense *= steps + 1;
    }
    if (row_major) tensor.strides.clear();
    return info.bytes == 0 || left > 0;
  }

  Record code_;
  std::map<std::string, ZipEntry> storages_;  // by the names that the pickle has for them
  std::vector<Value> values_;
  Items stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, std::size_t> memo_;
  std::size_t named_ = 0;  // bytes of names, and so many for each value
  std::vector<StoredTensor> found_;
};

std::vector<StoredTensor> tensors_of_torch(const InputFile& file, const std::vector<ZipEntry>& entries,
                                           const ZipEntry& pickle, const std::string& where) {
  const std::string root = pickle.name.substr(0, pickle.name.rfind('/') + 1), data = root + "data/";
  std::map<std::string, ZipEntry> storages;
  bool big = false;
  for (const ZipEntry& entry : entries) {
    if (entry.name.starts_with(data)) storages[entry.name.substr(data.size())] = entry;
    if (entry.name == root + "byteorder") big = entry.bytes == 3;  // "big", else "little"
  }
  std::vector<StoredTensor> tensors = Pickle({file, pickle.begin, pickle.bytes, where}, std::move(storages)).tensors();
  for (StoredTensor& tensor : tensors) tensor.big_endian = big;
  return tensors;
}

// ---- tensors in a file ----

// The elements of all strides, in row-major order.
void gather(const InputFile& file, const StoredTensor& tensor, std::span<std::byte> out) {
  const std::vector<std::int64_t>& shape = tensor.info.shape;
  const std::size_t size = bits_of(tensor.info.type) / 8;
  std::size_t end = size;  // of the last element
  for (std::size_t d = 0; d < shape.size(); ++d)
    end += static_cast<std::size_t>((shape[d] - 1) * tensor.strides[d]) * size;
  std::vector<std::byte> all(end);
  file.read(tensor.begin, all);
  std::vector<std::int64_t> index(shape.size(), 0);
  std::int64_t from = 0;
  for (std::size_t to = 0; to < out.size(); to += size) {
    std::memcpy(&out[to], &all[static_cast<std::size_t>(from) * size], size);
    for (std::size_t d = shape.size(); d-- > 0;) {
      from += tensor.strides[d];
      if (++index[d] < shape[d]) break;
      from -= tensor.strides[d] * std::exchange(index[d], 0);
    }
  }
}

void swap_bytes(std::span<std::byte> data, ElementType type) {
  const std::size_t size = type == ElementType::c64 ? 4 : bits_of(type) / 8;  // the real and the imaginary part
  for (std::size_t i = 0; i < data.size(); i += size) std::reverse(&data[i], &data[i] + size);
}

}  // namespace

Tensor read_stored(const InputFile& file, const StoredTensor& stored) {
  Tensor tensor{stored.info, {}};
  tensor.data.resize(tensor.bytes);
  if (stored.strides.empty()) {
    file.read(stored.begin, tensor.data);
  } else if (!tensor.data.empty()) {
    gather(file, stored, tensor.data);
  }
  if (stored.big_endian) swap_bytes(tensor.data, tensor.type);
  return tensor;
}

std::vector<StoredTensor> tensors_of_archive(const InputFile& file) {
  const std::string where = "[tensors] " + path_text(file.path()) + ": ";
  Record list = directory_of(file, where);
  std::vector<ZipEntry> entries;
  while (!list.rest().empty()) entries.push_back(next_entry(list, file, where));
  std::vector<StoredTensor> tensors;
  for (const ZipEntry& entry : entries) {
    if (entry.name.ends_with("/data.pkl")) return tensors_of_torch(file, entries, entry, where);
    if (!entry.name.ends_with(".npy")) continue;
    const std::string own = where + in_quotes(entry.name) + ": ";
    tensors.push_back(npy_within(file, entry.begin, entry.begin + entry.bytes, own));
    tensors.back().info.name = entry.name.substr(0, entry.name.size() - 4);
  }
  if (tensors.empty()) list.refuse("a zip archive must hold .npy files or be PyTorch's but is not");
  return tensors;
}

}  // namespace rotary::files
