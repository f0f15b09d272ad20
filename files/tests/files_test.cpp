// The files as their own formats' programs write them (files/tests/golden/make_tensor_files.py), and round trips.
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "files/tests/file_helpers.h"
#include "tensors/formats.h"

namespace rotary::test {
namespace {

namespace fs = std::filesystem;
using Shape = std::vector<std::int64_t>;

// ---- element types -------------------------------------------------------------------------------

// safetensors 0.8.0, enum Dtype, with the width of each.
const std::map<std::string, unsigned> published_types = {
    {"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8},     {"F8_E8M0", 8},     {"I16", 16},    {"U16", 16}, {"F16", 16},
    {"BF16", 16},   {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I32", 32},    {"U32", 32}, {"F32", 32},
    {"C64", 64},    {"F64", 64},        {"I64", 64},        {"U64", 64}};

TEST(ElementTypes, TheTwentyTwoHaveTheirPublishedNamesAndWidths) {
  std::map<std::string, unsigned> ours;
  for (unsigned i = 0; i <= static_cast<unsigned>(ElementType::u64); ++i) {
    const auto type = static_cast<ElementType>(i);
    ours[name(type)] = bits_of(type);
    EXPECT_EQ(parse_element_type(name(type)), type);
  }
  EXPECT_EQ(ours, published_types);
  expect_error("DTYPE", "BOOL, F4, F6_E2M3", [] { parse_element_type("F128"); });
  expect_error("DTYPE", "but got \"f32\"", [] { parse_element_type("f32"); });
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) EXPECT_EQ(dtype_of(element_type(type)), type);
  EXPECT_FALSE(dtype_of(ElementType::f64).has_value());
}

TEST(ElementTypes, SizesThatPassSixtyFourBitsAreFoundOut) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(files::checked_bits(ElementType::f32, Shape{}), 32U);
  EXPECT_EQ(files::checked_bits(ElementType::f4, Shape{3, 5}), 60U);
  EXPECT_EQ(files::checked_bits(ElementType::u8, Shape{huge, 0}), std::nullopt) << "strides would overflow";
  EXPECT_EQ(files::checked_bits(ElementType::u8, Shape{1024, 0}), 0U);
  EXPECT_EQ(files::checked_bits(ElementType::u8, Shape{std::int64_t{1} << 32, std::int64_t{1} << 32}), std::nullopt);
  EXPECT_EQ(files::checked_bits(ElementType::u8, Shape{std::int64_t{1} << 61}), std::nullopt);
  EXPECT_EQ(files::checked_bits(ElementType::u8, Shape{-1, -1}), std::nullopt);
}

// ---- safetensors ---------------------------------------------------------------------------------

TEST(Safetensors, AFileOfThePackageIsRead) {
  SafetensorsFile file(golden("package.safetensors"));
  std::vector<std::string> names;
  for (const TensorInfo& info : file.tensors()) names.push_back(info.name);
  EXPECT_EQ(names, (std::vector<std::string>{"positions", "scalar", "empty", "x", "q", "k", "grö\n\"ße\"\\", "mask"}));
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));

  const Tensor q = file.read("q");
  EXPECT_EQ(q.type, ElementType::bf16);
  EXPECT_EQ(q.shape, (Shape{1, 2, 3}));
  EXPECT_EQ(q.elements(), 6);
  EXPECT_EQ(values_of<std::uint16_t>(q), (std::vector<std::uint16_t>{0, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0}));
  EXPECT_EQ(values_of<std::uint16_t>(file.read("k")), (std::vector<std::uint16_t>{0, 0x3C00, 0x4000, 0x4200}));
  EXPECT_EQ(values_of<float>(file.read("x")), counted<float>(4));
  EXPECT_EQ(values_of<std::int64_t>(file.read("positions")), (std::vector<std::int64_t>{-1, 0, 1}));
  EXPECT_EQ(file.read("scalar").shape, Shape{});
  EXPECT_EQ(values_of<double>(file.read("scalar")), std::vector<double>{2.5});
  EXPECT_EQ(file.read("empty").shape, (Shape{0, 4}));
  EXPECT_TRUE(file.read("empty").data.empty());
  EXPECT_EQ(file.find("Q"), nullptr);
  ASSERT_NE(file.find("q"), nullptr);
  EXPECT_EQ(file.find("q")->bytes, 12U);
  expect_error("TENSOR", "no tensor is named \"Q\"", [&] { file.read("Q"); });
  const SafetensorsFile moved(std::move(file));
  EXPECT_EQ(values_of<std::uint8_t>(moved.read("mask")), (std::vector<std::uint8_t>{1, 0, 1}));
}

TEST(Safetensors, WritingWhatThePackageWroteGivesItsBytes) {
  const ScratchFolder folder;
  const SafetensorsFile file(golden("package.safetensors"));
  std::vector<Tensor> tensors;
  for (const TensorInfo& info : file.tensors()) tensors.push_back(file.read(info.name));
  write_safetensors(folder / "copy.safetensors", pointers_to(tensors), file.metadata());
  EXPECT_EQ(read_text(folder / "copy.safetensors"), read_text(golden("package.safetensors")));
}

TEST(Safetensors, TheHeaderIsPaddedToEightBytesWhateverTheNames) {
  const ScratchFolder folder;
  for (std::size_t length = 0; length < 9; ++length) {
    const Tensor tensor = make_tensor<float>(std::string(length, 'n'), ElementType::f32, {2}, {1, 2});
    write_safetensors(folder / "a", std::array{&tensor});
    const std::string text = read_text(folder / "a");
    EXPECT_EQ(text.size() % 8, 0U);
    EXPECT_EQ(static_cast<unsigned char>(text[0]) % 8, 0);
    EXPECT_EQ(values_of<float>(SafetensorsFile(folder / "a").read(tensor.name)), (std::vector<float>{1, 2}));
  }
  write_safetensors(folder / "none", {});
  EXPECT_EQ(read_text(folder / "none"), safetensors_text("{}      "));
  EXPECT_TRUE(SafetensorsFile(folder / "none").tensors().empty());
}

TEST(Safetensors, TensorsThatDoNotFitTheirShapesAreNotWritten) {
  const ScratchFolder folder;
  const auto write = [&](const Tensor& tensor) {
    return [&folder, tensor] { write_safetensors(folder / "a", std::array{&tensor}); };
  };
  const std::vector<float> two{1, 2};
  expect_error("SHAPE", "\"q\": its shape takes 12 bytes but its data has 8",
               write(make_tensor("q", ElementType::f32, {3}, two)));
  expect_error("SHAPE", "must not be negative", write(make_tensor("q", ElementType::f32, {-2}, two)));
  expect_error("SHAPE", "64 bits", write(make_tensor("q", ElementType::f32, {1LL << 40, 1LL << 40}, two)));
  expect_error("SHAPE", "whole bytes", write(make_tensor("q", ElementType::f4, {3}, std::vector<char>{1, 2})));
  expect_error("SHAPE", "dimensions", write(make_tensor("q", ElementType::f32, Shape(65, 1), std::vector<float>{1})));
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(Safetensors, NamesThatTheFormatCannotHoldAreNotWritten) {
  const ScratchFolder folder;
  const Tensor q = make_tensor<float>("q", ElementType::f32, {1}, {1});
  const Tensor metadata = make_tensor<float>("__metadata__", ElementType::f32, {1}, {1});
  const Tensor latin1 = make_tensor<float>("gr\xF6\xDF", ElementType::f32, {1}, {1});
  expect_error("FORMAT", "\"q\": a name must be unique", [&] {
    write_safetensors(folder / "a", std::array{&q, &q});
  });
  expect_error("FORMAT", "__metadata__", [&] { write_safetensors(folder / "a", std::array{&metadata}); });
  expect_error("FORMAT", "UTF-8 but got \"gr\\xF6\\xDF\"",
               [&] { write_safetensors(folder / "a", std::array{&latin1}); });
  expect_error("FORMAT", "UTF-8", [&] { write_safetensors(folder / "a", std::array{&q}, {{"k", "\xFF"}}); });
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(Safetensors, ManyThreadsReadOneFile) {
  const ScratchFolder folder;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 8; ++i) {
    tensors.push_back(make_tensor(std::to_string(i), ElementType::i32, {1000}, std::vector<std::int32_t>(1000, i)));
  }
  write_safetensors(folder / "a", pointers_to(tensors));
  const SafetensorsFile file(folder / "a");
  std::vector<Tensor> got(tensors.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&file, &got, i] { got[i] = file.read(std::to_string(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].data, tensors[i].data);
}

// ---- npy -----------------------------------------------------------------------------------------

TEST(Npy, FilesOfNumpyAreRead) {
  const Tensor f4 = read_npy(golden("numpy_f4.npy"));
  EXPECT_EQ(f4.type, ElementType::f32);
  EXPECT_EQ(f4.shape, (Shape{2, 3}));
  EXPECT_EQ(f4.bytes, 24U);
  EXPECT_EQ(values_of<float>(f4), counted<float>(6));
  EXPECT_EQ(read_npy(golden("numpy_scalar.npy")).shape, Shape{});
  EXPECT_EQ(values_of<double>(read_npy(golden("numpy_scalar.npy"))), std::vector<double>{2.5});
  EXPECT_EQ(read_npy(golden("numpy_empty.npy")).shape, (Shape{0, 3}));
  EXPECT_EQ(values_of<std::int64_t>(read_npy(golden("numpy_one.npy"))), counted<std::int64_t>(5));
  EXPECT_EQ(values_of<std::uint8_t>(read_npy(golden("numpy_b1.npy"))), (std::vector<std::uint8_t>{1, 0, 1}));
}

TEST(Npy, EveryVersionAndOrderIsRead) {
  EXPECT_EQ(values_of<std::uint16_t>(read_npy(golden("numpy_version2.npy"))), counted<std::uint16_t>(6));
  EXPECT_EQ(values_of<std::uint16_t>(read_npy(golden("numpy_version3.npy"))),
            (std::vector<std::uint16_t>{0, 0x3C00, 0x4000, 0x4200, 0x4400, 0x4500}));
  const Tensor fortran = read_npy(golden("numpy_fortran.npy"));
  EXPECT_EQ(fortran.shape, (Shape{2, 3, 4}));
  EXPECT_EQ(values_of<double>(fortran), counted<double>(24));
  EXPECT_EQ(values_of<std::int32_t>(read_npy(golden("numpy_big.npy"))), counted<std::int32_t>(6));
  const auto values = values_of<std::complex<float>>(read_npy(golden("numpy_big_fortran.npy")));
  ASSERT_EQ(values.size(), 6U);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto part = static_cast<float>(i);
    EXPECT_EQ(values[i], (std::complex<float>(part, -part)));
  }
}

TEST(Npy, AFortranFileLargerThanOnePieceIsRead) {
  const ScratchFolder folder;
  constexpr std::size_t rows = 700, columns = 900;  // 2.5 MB
  std::string data;
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t r = 0; r < rows; ++r) {
      const auto value = static_cast<std::uint32_t>(r * columns + c);
      data.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  write_text(folder / "f.npy", npy_text("{'descr':'<u4','fortran_order':True,'shape':(700,900)}", data));
  EXPECT_EQ(values_of<std::uint32_t>(read_npy(folder / "f.npy")), counted<std::uint32_t>(rows * columns));
}

TEST(Npy, WritingGivesTheBytesOfNumpy) {
  const ScratchFolder folder;
  for (const char* name : {"numpy_f4.npy", "numpy_scalar.npy", "numpy_empty.npy", "numpy_one.npy", "numpy_b1.npy"}) {
    write_npy(folder / name, read_npy(golden(name)));
    EXPECT_EQ(read_text(folder / name), read_text(golden(name))) << name;
  }
}

TEST(Npy, TypesWithoutASpellingAreSentToSafetensors) {
  const ScratchFolder folder;
  const Tensor tensor = make_tensor<std::uint16_t>("q", ElementType::bf16, {1}, {1});
  expect_error("FORMAT", "BF16 has none: use .safetensors", [&] { write_npy(folder / "a.npy", tensor); });
  expect_error("SHAPE", "takes 8 bytes but its data has 4",
               [&] { write_npy(folder / "a.npy", make_tensor<float>("q", ElementType::f32, {2}, {1})); });
  EXPECT_TRUE(names_in(folder.path()).empty());
}

// ---- round trips ---------------------------------------------------------------------------------

Tensor random_tensor(std::mt19937_64& random, const std::string& name) {
  Tensor tensor;
  tensor.name = name;
  tensor.type = static_cast<ElementType>(random() % 22);
  std::size_t elements = 1;
  for (std::uint64_t rank = random() % 5; rank > 0; --rank) {
    tensor.shape.push_back(static_cast<std::int64_t>(random() % 5));
    elements *= static_cast<std::size_t>(tensor.shape.back());
  }
  if (elements * bits_of(tensor.type) % 8 != 0) {
    tensor.shape.push_back(4);  // four of 6 bits fill 3 bytes
    elements *= 4;
  }
  tensor.bytes = elements * bits_of(tensor.type) / 8;
  tensor.data.resize(tensor.bytes);
  for (std::byte& byte : tensor.data) byte = static_cast<std::byte>(random());
  return tensor;
}

TEST(RoundTrip, RandomTensorsComeBackFromSafetensors) {
  const ScratchFolder folder;
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<Tensor> tensors;
    std::map<std::string, std::string> metadata;
    for (std::uint64_t i = random() % 6; i > 0; --i) {
      tensors.push_back(random_tensor(random, std::string(1, static_cast<char>(random() % 0x80)) + std::to_string(i)));
      metadata["\t" + std::to_string(random())] = "\"ß\x01";
    }
    write_safetensors(folder / "a", pointers_to(tensors), metadata);
    const SafetensorsFile file(folder / "a");
    EXPECT_EQ(file.metadata(), metadata);
    ASSERT_EQ(file.tensors().size(), tensors.size());
    for (const Tensor& tensor : tensors) expect_same(file.read(tensor.name), tensor);
  }
}

TEST(RoundTrip, RandomTensorsComeBackFromNpy) {
  const ScratchFolder folder;
  std::mt19937_64 random(2);
  for (int round = 0; round < 100; ++round) {
    const Tensor tensor = random_tensor(random, "");
    if (files::numpy_name(tensor.type) == nullptr) continue;
    write_npy(folder / "a.npy", tensor);
    expect_same(read_npy(folder / "a.npy"), tensor);
    EXPECT_EQ((read_text(folder / "a.npy").size() - tensor.bytes) % 64, 0U);
  }
}

}  // namespace
}  // namespace rotary::test
