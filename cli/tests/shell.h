// A shell in a folder of its own, for transcripts and pages of docs. These lines make a file there:
//   file NAME TEXT            of one line
//   tensors NAME JSON         a safetensors file or an .npy of {"q": [dtype, shape]}, by name; values may stand third,
//                             metadata in "__metadata__"
// golden/ is files/tests/golden.
#pragma once

#include <cstdlib>
#include <stdexcept>

#include "rotary/tensors.h"
#include "run.h"

namespace rotary::cli_tests {

template <typename T, typename From>
std::vector<T> converted(const std::vector<From>& values) {
  std::vector<T> result;
  for (const From value : values) result.push_back(static_cast<T>(value));
  return result;
}

inline Tensor tensor_of(const std::string& name, const nlohmann::json& data) {
  const ElementType type = parse_element_type(data.at(0).get<std::string>());
  const std::vector<std::int64_t> shape = data.at(1);
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::vector<double> values = converted<double>(some_values(count));
  if (data.size() > 2) {
    values.clear();
    for (const auto& value : data.at(2))  // "nan" and "inf" are no JSON
      values.push_back(value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>());
  }
  if (type == ElementType::f64) return make_tensor(name, type, shape, values);
  if (type == ElementType::i64) return make_tensor(name, type, shape, converted<std::int64_t>(values));
  if (type == ElementType::i32) return make_tensor(name, type, shape, converted<std::int32_t>(values));
  if (type == ElementType::bf16) {
    std::vector<std::uint16_t> bits;
    for (const double value : values) bits.push_back(to_bf16(data.size() > 2 ? static_cast<float>(value) : 1).bits);
    return make_tensor(name, type, shape, bits);
  }
  if (type == ElementType::f32) return make_tensor(name, type, shape, converted<float>(values));
  throw std::runtime_error("no type of a transcript's tensors: " + data.dump());
}

inline void write_tensor_file(const std::filesystem::path& file, const nlohmann::json& data) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : data.items())
    if (name != "__metadata__") tensors.push_back(tensor_of(name, tensor));
  if (file.extension() == ".npy") {
    write_npy(file, tensors.at(0));
  } else {
    write_safetensors(file, test::pointers_to(tensors),
                      data.value("__metadata__", std::map<std::string, std::string>()));
  }
}

// Beside the folder, the program's name.
class Shell {
 public:
  Shell() {
    std::filesystem::create_directories(scratch_ / "here");
    std::filesystem::create_directory(scratch_ / "bin");
    std::filesystem::create_symlink(ROTARY_PROGRAM, scratch_ / "bin/rotary");
    std::filesystem::create_directory_symlink(golden_folder, scratch_ / "here/golden");
  }
  std::filesystem::path path(const std::string& name) const { return scratch_ / "here" / name; }
  void make(const std::string& line) const {
    std::istringstream words(line);
    std::string kind, name, rest;
    words >> kind >> name >> std::ws;
    std::getline(words, rest);
    std::filesystem::create_directories(path(name).parent_path());
    if (kind == "file") return write_text(path(name), rest);
    if (kind != "tensors") throw std::runtime_error("no line of a transcript: " + line);
    write_tensor_file(path(name), nlohmann::json::parse(rest));
  }
  Result run(const std::string& command) const {
    const std::string all =
        "cd '" + path("").string() +
        "' && PATH=\"$PWD/../bin:$PATH\" && export PATH LC_ALL=C.UTF-8 && unset COLUMNS ROTARY_TARGET && { " + command +
        "\n} >../out 2>../err";
    const int status = std::system(all.c_str());
    return {WEXITSTATUS(status), read_text(scratch_ / "out"), read_text(scratch_ / "err")};
  }

 private:
  test::ScratchFolder scratch_;
};

}  // namespace rotary::cli_tests
