// Makes small checkpoints and reads the converted ones.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "files/tests/file_helpers.h"
#include "rotary/convert.h"

namespace rotary::convert_tests {

namespace fs = std::filesystem;
using test::expect_error;
using test::make_tensor;
using test::read_text;
using test::write_text;

using Tensors = std::map<std::string, Tensor>;

// A tensor of a type of which no two rows have the same bytes.
inline Tensor some_tensor(const std::string& name, ElementType type, std::vector<std::int64_t> shape,
                          unsigned seed = 1) {
  Tensor tensor;
  tensor.name = name;
  tensor.type = type;
  tensor.shape = std::move(shape);
  tensor.bytes = static_cast<std::uint64_t>(tensor.elements()) * bits_of(type) / 8;
  tensor.data.resize(tensor.bytes);
  std::uint32_t state = seed * 2654435761U + static_cast<std::uint32_t>(std::hash<std::string>{}(name));
  for (std::byte& byte : tensor.data) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  for (std::size_t i = 1; type == ElementType::bf16 && i < tensor.data.size(); i += 2)
    tensor.data[i] &= std::byte{0xBF};
  if (type == ElementType::f32 && tensor.bytes > 0) {  // finite numbers
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] =
          static_cast<float>(static_cast<std::int8_t>(tensor.data[4 * i])) / 64.0F + static_cast<float>(i) * 0x1p-12F;
    std::memcpy(tensor.data.data(), values.data(), tensor.bytes);
  }
  return tensor;
}

class Checkpoint : public testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_ / name; }

  // name/config.json and name/model.safetensors.
  fs::path make(const std::string& name, const std::string& config, const std::vector<Tensor>& tensors,
                const std::map<std::string, std::string>& metadata = {{"format", "pt"}},
                const std::string& file = "model.safetensors") const {
    fs::create_directories(path(name));
    write_text(path(name) / "config.json", config);
    write_safetensors(path(name) / file, test::pointers_to(tensors), metadata);
    return path(name);
  }

  static ConvertResult convert(const fs::path& from, Pairing to, const fs::path& output, bool verify = false) {
    return rotary::convert({.input = from, .output = output, .to = to, .verify = verify});
  }
  static ConvertResult dry_run(const fs::path& from, Pairing to) {
    return rotary::convert({.input = from, .output = {}, .to = to, .dry_run = true, .verify = true});
  }
  void expect_refused(const fs::path& folder, const std::string& code, const std::string& words,
                      Pairing to = Pairing::interleaved) const {
    expect_error(code, words, [&] { convert(folder, to, path("refused")); });
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      EXPECT_FALSE(entry.path().filename().string().starts_with("refused")) << entry;
  }
  // To the other pairing, as NAME-2 and verified, and back, as NAME-3.
  ConvertResult there_and_back(const std::string& name, Pairing native = Pairing::half) const {
    const Pairing other = native == Pairing::half ? Pairing::interleaved : Pairing::half;
    const ConvertResult dry = dry_run(path(name), other), result = convert(path(name), other, path(name + "-2"), true);
    EXPECT_EQ(dry.verified->size(), result.verified->size());
    convert(path(name + "-2"), native, path(name + "-3"));
    for (const auto& entry : fs::directory_iterator(path(name))) {
      const fs::path file = entry.path().filename();
      if (file.extension() == ".safetensors") expect_same_tensors(entry.path(), path(name + "-3") / file);
    }
    return result;
  }

  static Tensors tensors_in(const fs::path& folder, const std::string& file = "model.safetensors") {
    Tensors tensors;
    for (Tensor& tensor : read_tensors(folder / file)) tensors.emplace(tensor.name, tensor);
    return tensors;
  }

  static void expect_same_tensors(const fs::path& a, const fs::path& b) {
    const std::vector<Tensor> before = read_tensors(a), after = read_tensors(b);
    const auto is_same = [](const Tensor& x, const Tensor& y) {
      return x.name == y.name && x.type == y.type && x.shape == y.shape && x.data == y.data;
    };
    EXPECT_TRUE(std::ranges::equal(before, after, is_same)) << b;
  }

 private:
  test::ScratchFolder folder_;
};

}  // namespace rotary::convert_tests
