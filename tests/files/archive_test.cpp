// .npz and PyTorch's files: as numpy and torch write them (tests/golden/make_tensor_files.py), and every way in which
// they can lie.
#include <gtest/gtest.h>

#include "tests/support/file_helpers.h"
#include "tests/support/zip.h"

namespace rotary::test {
namespace {

namespace fs = std::filesystem;

fs::path golden(const std::string& name) { return fs::path(ROTARY_SOURCE_DIR) / "tests" / "golden" / name; }

// "name TYPE [shape]: values".
std::string text_of(const Tensor& tensor) {
  std::string text = tensor.name + " " + name(tensor.type) + " " + testing::PrintToString(tensor.shape) + ":";
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto say = [&](double value) { text += " " + std::to_string(static_cast<int>(value)); };
    if (tensor.type == ElementType::f32) say(tensor.as<float>()[at]);
    if (tensor.type == ElementType::f64) say(tensor.as<double>()[at]);
    if (tensor.type == ElementType::f16) say(to_float(tensor.as<f16>()[at]));
    if (tensor.type == ElementType::bf16) say(to_float(tensor.as<bf16>()[at]));
    if (tensor.type == ElementType::i32) say(tensor.as<std::int32_t>()[at]);
    if (tensor.type == ElementType::i64) say(static_cast<double>(tensor.as<std::int64_t>()[at]));
    if (tensor.type == ElementType::boolean) say(std::to_integer<int>(tensor.data[at]));
  }
  return text;
}

std::string text_of(const std::vector<Tensor>& tensors) {
  std::string text;
  for (const Tensor& tensor : tensors) text += text_of(tensor) + "\n";
  return text;
}

const char* const package =
    "x F32 { 2, 3, 4 }: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
    "turned F32 { 4, 3, 2 }: 0 12 4 16 8 20 1 13 5 17 9 21 2 14 6 18 10 22 3 15 7 19 11 23\n"
    "part F32 { 1, 3, 2 }: 13 14 17 18 21 22\n"
    "every F32 { 2, 3, 2 }: 0 2 4 6 8 10 12 14 16 18 20 22\n"
    "layers.0.q BF16 { 2, 3, 4 }: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
    "layers.1.0 F16 { 3, 4 }: 0 1 2 3 4 5 6 7 8 9 10 11\n"
    "model.w F64 { 2 }: 0 1\n"
    "7 I64 {}: -1\n"
    "empty F32 { 0, 3 }:\n"
    "mask BOOL { 2 }: 1 0\n";

TEST(Archives, WhatNumpyAndTorchSaveIsRead) {
  EXPECT_EQ(text_of(read_tensors(golden("package.npz"))),
            "f4 F32 { 2, 3 }: 0 1 2 3 4 5\nbig I32 { 2, 3 }: 0 1 2 3 4 5\nscalar F64 {}: 2\nempty F16 { 0, 3 }:\n");
  EXPECT_EQ(text_of(read_tensors(golden("package.pt"))), package);
  EXPECT_EQ(text_of(read_tensor(golden("package.pt"), "part")), "part F32 { 1, 3, 2 }: 13 14 17 18 21 22");
  expect_error("TENSOR", "[tensors] ", [] { read_tensor(golden("package.pt"), "size"); });
}

TEST(Archives, ACopyOfOneIsASafetensorsFile) {
  const ScratchFolder folder;
  const SafetensorsFile file(golden("package.pt"));
  std::string bytes;
  const auto add = [&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  };
  file.copy(add, {}, {});
  write_text(folder / "copy.safetensors", bytes);
  std::string copied;
  for (const TensorInfo& info : file.tensors())
    copied += text_of(read_tensor(folder / "copy.safetensors", info.name)) + "\n";
  EXPECT_EQ(copied, package);
}

struct Case {
  const char* what;
  std::string file;
  const char* words;  // of the tensors, or of the error
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.what; }

// Lists in lists: each twice the one before.
std::string doubled(int times) {
  std::string pickle = pickled_tensor({6}, {1}) + "q\1";
  for (int i = 0; i < times; ++i) pickle += "a](h\1h\1eq\1";
  return pickle;
}
std::string nested(int times) {
  return std::string(static_cast<std::size_t>(times), ']') + std::string(static_cast<std::size_t>(times - 1), 'a');
}
std::string cut(const std::string& file, std::size_t bytes) { return file.substr(0, file.size() - bytes); }

const std::string whole = torch_file(pickled_tensor({2, 3}, {3, 1}));
constexpr std::int64_t huge = std::int64_t{1} << 62;

const std::vector<Case> cases = {
    {"OneTensor", whole, " F32 { 2, 3 }: 1 2 3 4 5 6\n"},
    {"Turned", torch_file(pickled_tensor({3, 2}, {1, 3})), " F32 { 3, 2 }: 1 4 2 5 3 6\n"},
    {"StrideOfOneElement", torch_file(pickled_tensor({1, 2}, {huge, 1}, 4)), " F32 { 1, 2 }: 5 6\n"},
    {"BigEndian", torch_file(pickled_tensor({1}, {1}, 1, "IntStorage"), "big"), " I32 { 1 }: 64\n"},
    {"Zip64", zip_of({{"a/data.pkl", pickled_tensor({1}, {1}) + "."}, {"a/data/0", std::string(4, '\0')}}, 0, true),
     " F32 { 1 }: 0\n"},
    {"NoZip", "PK\3\4", "its directory is missing"},
    {"CutDirectory", cut(whole, 30), "its directory is missing"},
    {"NoTensors", zip_of({{"a.txt", "x"}}), "must hold .npy files or be PyTorch's"},
    {"Compressed", zip_of({{"q.npy", "x"}}, 8), "\"q.npy\" must be stored as it is but is compressed: numpy.savez"},
    {"NoNpy", zip_of({{"q.npy", "x"}}), "\"q.npy\": a file must begin with"},
    {"Twice", torch_file("}" + pickled("a") + pickled_tensor({1}, {1}) + "q\1s" + pickled("a") + "h\1s"),
     "must differ but two are \"a\""},
    {"EmptyPickle", torch_file(""), "data.pkl must hold tensors alone"},
    {"EndlessPickle", zip_of({{"a/data.pkl", "]]]"}}), "must be whole but ends too soon"},
    {"LongText", torch_file("X\xFF\xFF\xFF\xFF"), "must be whole but ends too soon"},
    {"Import", torch_file("cos\nsystem\n(" + pickled("true") + "tR"), "is a \"os system\" of Python"},
    {"Instruction", torch_file("]\x81"), "has the instruction 129"},
    {"NoMark", torch_file("]t"), "is damaged"},
    {"NoMemory", torch_file("h\7"), "is damaged"},
    {"OddDict", torch_file("}(" + pickled("a") + "u"), "is damaged"},
    {"ItselfWithin", torch_file("]q\1h\1a"), "has too many or too deep ones"},
    {"Deep", torch_file(nested(100)), "has too many or too deep ones"},
    {"ManyWays", torch_file("]" + doubled(40) + "a"), "has too many or too deep ones"},
    {"NoStorage", zip_of({{"a/data.pkl", pickled_tensor({1}, {1}) + "."}}), "has no storage in the file"},
    {"OtherStorage", torch_file(pickled_tensor({1}, {1}, 0, "QInt8Storage")), "is of a \"torch QInt8Storage\""},
    {"TooLong", torch_file(pickled_tensor({7}, {1})), "must have all its elements in the file"},
    {"TooFar", torch_file(pickled_tensor({2}, {1}, 5)), "must have all its elements in the file"},
    {"Before", torch_file(pickled_tensor({1}, {1}, -1)), "must have all its elements in the file"},
    {"Behind", torch_file(pickled_tensor({1}, {1}, huge)), "must have all its elements in the file"},
    {"Backwards", torch_file(pickled_tensor({2}, {-1}, 3)), "must have all its elements in the file"},
    {"WideSteps", torch_file(pickled_tensor({3, 2}, {huge, huge})), "must have all its elements in the file"},
    {"Repeated", torch_file(pickled_tensor({huge / 8}, {0})), "must have all its elements in the file"},
    {"FewStrides", torch_file(pickled_tensor({2, 2}, {1})), "must have all its elements in the file"},
    {"HugeShape", torch_file(pickled_tensor({huge, huge}, {1, 1})), "must have all its elements in the file"},
};

class ArchiveCases : public testing::TestWithParam<Case> {};

TEST_P(ArchiveCases, AreReadOrRefusedInASentence) {
  const ScratchFolder folder;
  write_text(folder / "a.pt", GetParam().file);
  std::string said;
  try {
    said = text_of(read_tensors(folder / "a.pt"));
    EXPECT_EQ(said, GetParam().words);
  } catch (const Error& error) {
    said = error.what();
    EXPECT_EQ(error.code(), Code::FORMAT);
    EXPECT_TRUE(said.starts_with("[tensors] " + (folder / "a.pt").string() + ": ")) << said;
    EXPECT_NE(said.find(GetParam().words), std::string::npos) << said;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ArchiveCases, testing::ValuesIn(cases),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.what; });

}  // namespace
}  // namespace rotary::test
