// Zip files and pickles of tensors, as tests and fuzz targets need them: right, or wrong in one place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rotary::test {

inline std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
  return text;
}

// method: 0 stored. wide: with the records of zip64, and no number elsewhere.
inline std::string zip_of(const std::vector<std::pair<std::string, std::string>>& entries, int method = 0,
                          bool wide = false) {
  std::string file, list;
  for (const auto& [name, bytes] : entries) {
    const std::string sizes = wide ? std::string(8, '\xFF') : little(bytes.size(), 4) + little(bytes.size(), 4);
    const std::string extra =
        wide ? little(1, 2) + little(24, 2) + little(bytes.size(), 8) + little(bytes.size(), 8) + little(file.size(), 8)
             : "";
    list += "PK\1\2" + std::string(6, '\0') + little(static_cast<std::uint64_t>(method), 2) + std::string(8, '\0') +
            sizes + little(name.size(), 2) + little(extra.size(), 2) + std::string(10, '\0') +
            (wide ? std::string(4, '\xFF') : little(file.size(), 4)) + name + extra;
    file += "PK\3\4" + std::string(22, '\0') + little(name.size(), 2) + little(3, 2) + name + "pad" + bytes;
  }
  const std::uint64_t begin = file.size();
  file += list;
  if (wide) {
    const std::uint64_t record = file.size();
    file += "PK\6\6" + std::string(36, '\0') + little(list.size(), 8) + little(begin, 8);
    file += "PK\6\7" + std::string(4, '\0') + little(record, 8) + std::string(4, '\0');
  }
  return file + "PK\5\6" + std::string(8, '\0') +
         (wide ? std::string(8, '\xFF') : little(list.size(), 4) + little(begin, 4)) + std::string(2, '\0');
}

inline std::string pickled(std::string_view text) { return "X" + little(text.size(), 4) + std::string(text); }
inline std::string pickled(std::int64_t value) { return "\x8A\x08" + little(static_cast<std::uint64_t>(value), 8); }
inline std::string pickled(const std::vector<std::int64_t>& values) {
  std::string text = "(";
  for (const std::int64_t value : values) text += pickled(value);
  return text + "t";
}
// A tensor of the storage "0".
inline std::string pickled_tensor(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
                                  std::int64_t offset = 0, const std::string& storage = "FloatStorage") {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled("storage") + "ctorch\n" + storage + "\n" + pickled("0") +
         pickled("cpu") + pickled(6) + "tQ" + pickled(offset) + pickled(shape) + pickled(strides) + "\x89}tR";
}
// A file of torch.save: the pickle behind its version, and 24 bytes of a storage.
inline std::string torch_file(const std::string& pickle, const std::string& order = "little") {
  return zip_of(
      {{"a/data.pkl", "\x80\x02" + pickle + "."},
       {"a/byteorder", order},
       {"a/data/0", std::string("\0\0\x80\x3F\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xA0\x40\0\0\xC0\x40", 24)}});
}

}  // namespace rotary::test
