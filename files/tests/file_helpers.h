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
#include "files/tests/file_bytes.h"
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

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(ROTARY_SOURCE_DIR) / "files/tests/golden" / name;
}

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

}  // namespace rotary::test
