// Files of tensors, recognised by their endings, and the typed views of a tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <type_traits>

#include "files/tests/file_helpers.h"

namespace rotary::test {
namespace {

namespace fs = std::filesystem;
using Shape = std::vector<std::int64_t>;

// ---- views ---------------------------------------------------------------------------------------

template <typename T>
void expect_view(ElementType type, const std::vector<T>& values) {
  Tensor tensor = make_tensor("x", type, {static_cast<std::int64_t>(values.size())}, values);
  const Tensor& fixed = tensor;
  const std::span<const T> view = fixed.as<T>();
  static_assert(std::is_same_v<decltype(tensor.template as<T>()), std::span<T>>);
  EXPECT_EQ(static_cast<const void*>(view.data()), static_cast<const void*>(tensor.data.data())) << name(type);
  ASSERT_EQ(view.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(view[i], values[i]) << name(type);
  tensor.as<T>()[0] = values[1];
  EXPECT_EQ(fixed.as<T>()[0], values[1]);
  EXPECT_EQ(std::memcmp(tensor.data.data(), &values[1], sizeof(T)), 0);
}

TEST(TensorViews, SeeTheElementsOfEveryTypeThatHasOne) {
  expect_view<float>(ElementType::f32, {1.5F, -2});
  expect_view<double>(ElementType::f64, {1.5, -2});
  expect_view<f16>(ElementType::f16, {to_f16(1.5F), to_f16(-2)});
  expect_view<bf16>(ElementType::bf16, {to_bf16(1.5F), to_bf16(-2)});
  expect_view<std::int8_t>(ElementType::i8, {1, -2});
  expect_view<std::int16_t>(ElementType::i16, {1, -2});
  expect_view<std::int32_t>(ElementType::i32, {1, -2});
  expect_view<std::int64_t>(ElementType::i64, {1, -2});
  expect_view<std::uint8_t>(ElementType::u8, {1, 2});
  expect_view<std::uint16_t>(ElementType::u16, {1, 2});
  expect_view<std::uint32_t>(ElementType::u32, {1, 2});
  expect_view<std::uint64_t>(ElementType::u64, {1, 2});
  EXPECT_TRUE(make_tensor<float>("none", ElementType::f32, {0, 3}, {}).data.empty());
  const Tensor none = make_tensor<float>("none", ElementType::f32, {0, 3}, {});
  EXPECT_TRUE(none.as<float>().empty());
}

TEST(TensorViews, RefuseAnotherTypeAndDataThatDoNotFitTheShape) {
  const Tensor q = make_tensor<std::uint16_t>("q", ElementType::bf16, {2}, {1, 2});
  expect_error("DTYPE", "\"q\" must be F32 to be seen so but got BF16", [&] { q.as<float>(); });
  expect_error("DTYPE", "must be F16", [&] { q.as<f16>(); });
  expect_error("DTYPE", "must be U16", [&] { q.as<std::uint16_t>(); });
  Tensor cut = make_tensor<float>("c", ElementType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  cut.data.resize(20);
  expect_error("SHAPE", "\"c\" must hold the 24 bytes of its shape but has 20", [&] { cut.as<float>(); });
  cut.shape = {-1};
  expect_error("SHAPE", "", [&] { cut.as<float>(); });
}

template <typename T, typename Element>
concept HasView = requires(T tensor) {
  std::forward<T>(tensor).template as<Element>();
};
static_assert(HasView<Tensor&, float> && HasView<const Tensor&, float>);
static_assert(!HasView<Tensor, float> && !HasView<const Tensor, float>, "a temporary's elements are gone at once");
static_assert(!HasView<Tensor&, bool> && !HasView<Tensor&, std::byte>);

// ---- files by their endings ----------------------------------------------------------------------

class TensorFiles : public testing::Test {
 protected:
  fs::path file(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, std::string_view text) const { write_text(folder_ / name, text); }

  ScratchFolder folder_;
  std::vector<Tensor> tensors_ = {make_tensor<float>("q", ElementType::f32, {2, 2}, {1, 2, 3, 4}),
                                  make_tensor<std::int64_t>("ids", ElementType::i64, {3}, {7, 8, 9})};
};

TEST_F(TensorFiles, OfSafetensorsHoldManyAndMetadata) {
  write_tensors(file("a.safetensors"), tensors_, {{"made_by", "test"}});
  const std::vector<Tensor> read = read_tensors(file("a.safetensors"));
  ASSERT_EQ(read.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read[i].name, tensors_[i].name);
    expect_same(read[i], tensors_[i]);
    expect_same(read_tensor(file("a.safetensors"), tensors_[i].name), tensors_[i]);
  }
  EXPECT_EQ(tensor_metadata(file("a.safetensors")), (std::map<std::string, std::string>{{"made_by", "test"}}));
  const std::vector<TensorInfo> infos = tensor_infos(file("a.safetensors"));
  ASSERT_EQ(infos.size(), 2U);
  EXPECT_EQ(infos[1].name, "ids");
  EXPECT_EQ(infos[1].type, ElementType::i64);
  EXPECT_EQ(infos[1].shape, Shape{3});
  EXPECT_EQ(infos[1].bytes, 24U);
  expect_error("TENSOR", "no tensor is named \"k\"", [&] { read_tensor(file("a.safetensors"), "k"); });
}

TEST_F(TensorFiles, OfNpyHoldOneWithoutNameAndMetadata) {
  write_tensors(file("a.npy"), std::span(tensors_).first(1));
  const std::vector<Tensor> read = read_tensors(file("a.npy"));
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].name, "");
  expect_same(read[0], tensors_[0]);
  expect_same(read_tensor(file("a.npy"), "any"), tensors_[0]);
  EXPECT_TRUE(tensor_metadata(file("a.npy")).empty());
  expect_error("FORMAT", "one tensor and no metadata but got 2 tensors",
               [&] { write_tensors(file("b.npy"), tensors_); });
  expect_error("FORMAT", "but got 0 tensors", [&] { write_tensors(file("b.npy"), {}); });
  expect_error("FORMAT", "metadata of 1 keys: use .safetensors", [&] {
    write_tensors(file("b.npy"), std::span(tensors_).first(1), {{"made_by", "test"}});
  });
  EXPECT_FALSE(fs::exists(file("b.npy")));
}

// The header alone is read: of a sparse file of 64 GiB every element would take too long.
TEST_F(TensorFiles, AreToldFromTheirHeadersAlone) {
  const std::string npy = npy_text("{'descr': '>f4', 'fortran_order': True, 'shape': (1024, 16777216), }");
  write("large.npy", npy);
  fs::resize_file(file("large.npy"), npy.size() + (std::uintmax_t{1} << 36));
  const std::vector<TensorInfo> infos = tensor_infos(file("large.npy"));
  ASSERT_EQ(infos.size(), 1U);
  EXPECT_EQ(infos[0].name, "");
  EXPECT_EQ(infos[0].type, ElementType::f32);
  EXPECT_EQ(infos[0].shape, (Shape{1024, 16777216}));
  EXPECT_EQ(infos[0].bytes, std::uint64_t{1} << 36);
  fs::resize_file(file("large.npy"), npy.size() + (std::uintmax_t{1} << 36) - 1);
  expect_error("FORMAT", "its shape takes 68719476736 bytes but the file holds 68719476735",
               [&] { tensor_infos(file("large.npy")); });
}

TEST_F(TensorFiles, OfAnotherEndingAreRefusedAndTheLineOfPythonIsSaid) {
  const std::string words = "must end in .safetensors or .npy but got";
  for (const char* name : {"a.NPY", "a.txt", "a", "-", "a.safetensors.gz"}) {
    const std::string path = file(name).string();
    write(name, "x");
    expect_error("FORMAT", words, [&] { tensor_infos(path); });
    expect_error("FORMAT", words, [&] { tensor_metadata(path); });
    expect_error("FORMAT", words, [&] { read_tensors(path); });
    expect_error("FORMAT", words, [&] { read_tensor(path, "q"); });
    expect_error("FORMAT", path, [&] { write_tensors(path, tensors_); });
    EXPECT_EQ(read_text(path), "x") << "what is refused is not written";
  }
  for (const char* name : {"a.npz", "a.pt", "a.pth", "a.bin", "a.ckpt"}) {
    write(name, "x");
    const char* line =
        std::string_view(name) == "a.npz" ? "safetensors.numpy.save_file" : "safetensors.torch.save_file";
    expect_error("FORMAT", line, [&] { read_tensors(file(name)); });
    expect_error("FORMAT", line, [&] { tensor_infos(file(name)); });
    expect_error("FORMAT", line, [&] { write_tensors(file(name), tensors_); });
    EXPECT_EQ(read_text(file(name)), "x") << "what is refused is not written";
  }
  for (const char* begin : {"PK\3\4 and what follows", "\x80\2 a pickle of before PyTorch 1.6"}) {
    write("a.safetensors", begin);
    expect_error("FORMAT", "safetensors.torch.save_file({", [&] { read_tensors(file("a.safetensors")); });
  }
  expect_error("FILE", "No such file", [&] { read_tensors(file("absent.npy")); });
  expect_error("FILE", "No such file", [&] { tensor_infos(file("absent.safetensors")); });
}

// ---- bytes, and copies ---------------------------------------------------------------------------

std::vector<std::byte> bytes_in(const fs::path& path) {
  const std::string text = read_text(path);
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

TEST(Bytes, AreReadAsTheFileIs) {
  const ScratchFolder folder;
  const Tensor q = make_tensor<float>("q", ElementType::f32, {2, 3}, counted<float>(6));
  write_safetensors(folder / "a.safetensors", std::array{&q}, {{"key", "value"}});
  write_npy(folder / "a.npy", q);
  const SafetensorsFile file(bytes_in(folder / "a.safetensors"), "a pipe");
  ASSERT_EQ(file.tensors().size(), 1U);
  EXPECT_EQ(file.metadata().at("key"), "value");
  expect_same(file.read("q"), q);
  expect_same(parse_npy(bytes_in(folder / "a.npy"), "a pipe"), read_npy(folder / "a.npy"));
  std::vector<std::byte> cut = bytes_in(folder / "a.safetensors");
  cut.resize(cut.size() - 1);
  expect_error("FORMAT", "a pipe: ", [&] { SafetensorsFile(cut, "a pipe"); });
  cut = bytes_in(folder / "a.npy");
  cut.resize(cut.size() - 1);
  expect_error("FORMAT", "a pipe: ", [&] { parse_npy(cut, "a pipe"); });
  expect_error("FORMAT", "a pipe: ", [] { parse_npy({}, "a pipe"); });
  expect_error("FORMAT", "a pipe: ", [] { SafetensorsFile({}, "a pipe"); });
}

TEST(Copies, HoldTheChangedTensorsAndTheRestAsItWas) {
  const ScratchFolder folder;
  const std::size_t large = (std::size_t{1} << 18) + 3;  // floats: more than a piece of the copy
  const Tensor before =
      make_tensor<float>("before", ElementType::f32, {static_cast<std::int64_t>(large)}, counted<float>(large));
  Tensor q = make_tensor<float>("q", ElementType::f32, {3}, {1, 2, 3});
  const Tensor after = make_tensor<std::uint8_t>("after", ElementType::u8, {5}, {1, 2, 3, 4, 5});
  const Tensor none = make_tensor<float>("none", ElementType::f32, {0}, {});
  write_safetensors(folder / "a.safetensors", std::array<const Tensor*, 4>{&before, &q, &after, &none}, {{"old", "1"}});
  const SafetensorsFile file(folder / "a.safetensors");
  q = make_tensor<float>("q", ElementType::f32, {3}, {4, 5, 6});
  std::vector<std::byte> copied;
  std::size_t longest = 0;
  const auto sink = [&](std::span<const std::byte> piece) {
    copied.insert(copied.end(), piece.begin(), piece.end());
    longest = std::max(longest, piece.size());
  };
  file.copy(sink, std::array<const Tensor*, 1>{&q}, {{"new", "2"}});
  EXPECT_LT(longest, before.data.size());
  write_safetensors(folder / "wanted.safetensors", std::array<const Tensor*, 4>{&before, &q, &after, &none},
                    {{"new", "2"}});
  EXPECT_EQ(copied, bytes_in(folder / "wanted.safetensors"));
}

TEST(Copies, RefuseTensorsThatAreNotTheFiles) {
  const ScratchFolder folder;
  const Tensor q = make_tensor<float>("q", ElementType::f32, {3}, {1, 2, 3});
  write_safetensors(folder / "a.safetensors", std::array{&q});
  const SafetensorsFile file(folder / "a.safetensors");
  bool called = false;
  const auto copy = [&](const Tensor& changed) {
    file.copy([&](std::span<const std::byte>) { called = true; }, std::array<const Tensor*, 1>{&changed}, {});
  };
  expect_error("TENSOR", "\"k\"", [&] { copy(make_tensor<float>("k", ElementType::f32, {3}, {1, 2, 3})); });
  Tensor longer = q;
  longer.shape = {4};
  expect_error("SHAPE", "\"q\"", [&] { copy(longer); });
  expect_error("SHAPE", "\"q\"", [&] { copy(make_tensor<std::int32_t>("q", ElementType::i32, {3}, {1, 2, 3})); });
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace rotary::test
