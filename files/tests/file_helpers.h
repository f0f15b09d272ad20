// For tests of files: a temporary folder, whole files as text, errors by code and words.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tests/support/outcome.h"
#include "rotary/tensors.h"

namespace rotary::test {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "rotary-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  ASSERT_TRUE(file.good()) << path;
}

// Expects call() to throw an Error of this code whose sentence is one line and contains the words.
template <typename Function>
void expect_error(const std::string& code, const std::string& words, const Function& call) {
  const std::string got = tests::outcome_of(call).text();
  EXPECT_TRUE(got.starts_with(code + ": ") && got.find(words) != std::string::npos &&
              got.find('\n') == std::string::npos)
      << got << "\n  is not " << code << " that says: " << words;
}

template <typename T>
Tensor make_tensor(std::string name, ElementType type, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = type;
  tensor.shape = std::move(shape);
  tensor.bytes = values.size() * sizeof(T);
  tensor.data.resize(tensor.bytes);
  if (!values.empty()) std::memcpy(tensor.data.data(), values.data(), tensor.bytes);
  return tensor;
}

template <typename T = float>
std::vector<T> values_of(const Tensor& tensor) {
  EXPECT_EQ(tensor.data.size() % sizeof(T), 0U);
  std::vector<T> values(tensor.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

inline std::vector<const Tensor*> pointers_to(std::span<const Tensor> tensors) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  return pointers;
}

inline void expect_same(const Tensor& got, const Tensor& wanted) {
  EXPECT_EQ(got.type, wanted.type);
  EXPECT_EQ(got.shape, wanted.shape);
  EXPECT_EQ(got.bytes, wanted.bytes);
  EXPECT_EQ(got.data, wanted.data);
}

// 0, 1, 2, ...
template <typename T>
std::vector<T> counted(std::size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T(0));
  return values;
}

inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

// A safetensors file with any header and the correct header length.
inline std::string safetensors_text(std::string_view header, std::string_view data = {}) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return text.append(header).append(data);
}

// A version 1.0 .npy file with any header and the correct header length.
inline std::string npy_text(std::string_view header, std::string_view data = {}) {
  std::string text = "\x93NUMPY";
  text += '\1';
  text += '\0';
  text += static_cast<char>(header.size() & 0xFF);
  text += static_cast<char>(header.size() >> 8 & 0xFF);
  return text.append(header).append(data);
}

}  // namespace rotary::test
