// Every way in which a tensor file can lie has its own sentence, and no lie makes memory be asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "tests/support/file_helpers.h"

// The largest single request since it was set to 0.
static std::size_t largest_request = 0;

// Not inlined: g++ 12 would take malloc and free for a mismatch. std::stable_sort asks with nothrow.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  largest_request = std::max(largest_request, size);
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace rotary::test {
namespace {

struct Lie {
  const char* name;
  std::string file;
  const char* words;  // of the sentence
};

void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }

std::string lie_name(const testing::TestParamInfo<Lie>& info) { return info.param.name; }

template <typename Read>
void expect_found_out(const Lie& lie, const char* operation, Read read) {
  const ScratchFolder folder;
  write_text(folder / "lie", lie.file);
  const std::string path = (folder / "lie").string();
  largest_request = 0;
  expect_error("FORMAT", lie.words, [&] { read(path); });
  EXPECT_LT(largest_request, 4 * lie.file.size() + 4096);
  expect_error("FORMAT", "[" + std::string(operation) + "] " + path + ": ", [&] { read(path); });
}

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// ---- safetensors ---------------------------------------------------------------------------------

std::string with_length(std::uint64_t length, std::string_view rest) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(length >> (8 * i) & 0xFF);
  return text.append(rest);
}

// One tensor "q" with these fields and n bytes of data.
std::string one(const std::string& fields, std::size_t bytes) {
  return safetensors_text("{\"q\":{" + fields + "}}", std::string(bytes, '\1'));
}

// Two tensors of u8, "a" and "b", with these offsets.
std::string two(const std::string& a, const std::string& b, std::size_t bytes) {
  const std::string shape = R"("dtype":"U8","shape":[2],"data_offsets":)";
  return safetensors_text("{\"a\":{" + shape + a + "},\"b\":{" + shape + b + "}}", std::string(bytes, '\1'));
}

std::string nested(int depth) {
  return safetensors_text("{\"q\":" + std::string(static_cast<std::size_t>(depth), '[') + "}");
}

const std::vector<Lie> safetensors_lies = {
    {"Empty", "", "8 bytes of the header's length but has 0"},
    {"SevenBytes", "1234567", "but has 7"},
    {"LengthBehindTheEnd", with_length(3, "{}"), "must end within the file's 10 bytes but its length says 3"},
    {"LengthAboveTheLimit", with_length(100'000'001, "{}"), "at most 100000000 bytes but its length says 100000001"},
    {"LengthThatWraps", with_length(~std::uint64_t{7}, "{}"), "at most 100000000 bytes"},
    {"LengthOfAllOnes", with_length(~std::uint64_t{0}, "{}"), "but its length says 18446744073709551615"},
    {"NoHeader", with_length(0, ""), "must begin with { but got nothing"},
    {"OnlySpaces", safetensors_text("   "), "must begin with { but got nothing"},
    {"AnArray", safetensors_text("[]"), "must begin with { but got \"[\""},
    {"AByteOrderMark", safetensors_text("\xEF\xBB\xBF{}"), "must begin with { but got \"\\xEF\""},
    {"APickle", std::string("\x80\x02}q\0", 6) + std::string(10, 'x'), "at most 100000000"},
    {"CutJson", safetensors_text("{\"q\":"), "the header must be JSON"},
    {"TwoValues", safetensors_text("{}{}"), "the header must be JSON"},
    {"HiddenBehindNul", safetensors_text(std::string("{}\0{evil}", 9)), "but byte 2 of it is 0"},
    {"PaddedWithNul", safetensors_text(std::string("{}\0\0", 4)), "but byte 2 of it is 0"},
    {"Comment", safetensors_text("{/* */}"), "the header must be JSON"},
    {"NameNotUtf8", safetensors_text("{\"\xFF\":{}}"), R"(\xFF)"},
    {"LoneSurrogate", safetensors_text("{\"\\ud800\":{}}"), "the header must be JSON"},
    {"EntryIsANumber", safetensors_text("{\"q\":1}"), "tensor \"q\": must be an object but got 1"},
    {"EntryIsNull", safetensors_text("{\"q\":null}"), "tensor \"q\": must be an object but got null"},
    {"DeepArray", nested(200'000), "tensor \"q\": must be an object but got an array"},
    {"DeepObject", safetensors_text(R"({"q":{"dtype":{"a":{}}}})"), "\"q\": dtype must be a string but got an object"},
    {"MissingDtype", one(R"("shape":[4],"data_offsets":[0,4])", 4), "\"q\": dtype is missing"},
    {"MissingShape", one(R"("dtype":"U8","data_offsets":[0,4])", 4), "\"q\": shape is missing"},
    {"MissingOffsets", one(R"("dtype":"U8","shape":[4])", 4), "\"q\": data_offsets is missing"},
    {"UnknownKey", one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4],"x":0)", 4),
     "shape, data_offsets but got \"x\""},
    {"UnknownDtype", one(R"("dtype":"F128","shape":[4],"data_offsets":[0,4])", 4), "the format but got \"F128\""},
    {"LowerCaseDtype", one(R"("dtype":"f32","shape":[1],"data_offsets":[0,4])", 4), "but got \"f32\""},
    {"DtypeANumber", one(R"("dtype":7)", 0), "\"q\": dtype must be a string but got 7"},
    {"DtypeTwice", one(R"("dtype":"U8","dtype":"I8")", 0), "\"q\": dtype must come once"},
    {"ShapeTwice", one(R"("shape":[1],"shape":[1])", 0), "\"q\": shape must come once"},
    {"OffsetsTwice", one(R"("data_offsets":[0,1],"data_offsets":[0,1])", 0), "\"q\": data_offsets must come once"},
    {"ShapeANumber", one(R"("shape":4)", 0), "\"q\": shape must be an array of integers but got 4"},
    {"ShapeNegative", one(R"("shape":[-4])", 0), "\"q\": shape must hold integers from 0 to 2^63 - 1 but got -4"},
    {"ShapeMinusZero", one(R"("shape":[-0])", 0), "shape must hold integers"},
    {"ShapeAFloat", one(R"("shape":[4.0])", 0), "to 2^63 - 1 but got 4.0"},
    {"ShapeAnExponent", one(R"("shape":[1e3])", 0), "to 2^63 - 1 but got 1e3"},
    {"ShapeAString", one(R"("shape":["4"])", 0), "to 2^63 - 1 but got \"4\""},
    {"ShapeNested", one(R"("shape":[[4]])", 0), "to 2^63 - 1 but got an array"},
    {"ShapePast63Bits", one(R"("shape":[9223372036854775808])", 0), "but got 9223372036854775808"},
    {"ShapePast64Bits", one(R"("shape":[18446744073709551617])", 0), "but got 18446744073709551617"},
    {"ShapeOf65", one("\"shape\":[1" + repeated(",1", 64) + "]", 0), "at most 64 dimensions"},
    {"ProductWrapsToZero", one(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0),
     "fit 64 bits"},
    {"ProductWrapsToFour", one(R"("dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4])", 4),
     "fit 64 bits"},
    {"HugeShapeNoData", one(R"("dtype":"F32","shape":[1000000000000],"data_offsets":[0,4])", 4),
     "its shape takes 4000000000000 bytes but its data_offsets span 4"},
    {"HugeShapeHugeOffsets", one(R"("dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000])", 4),
     "within the file's 4 bytes of data but its data_offsets end at 4000000000000"},
    {"HalfAByte", one(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])", 2), "fill whole bytes but take 12 bits"},
    {"OffsetsOne", one(R"("data_offsets":[0])", 0), "\"q\": data_offsets must be two numbers but got 1"},
    {"OffsetsNone", one(R"("data_offsets":[])", 0), "\"q\": data_offsets must be two numbers but got 0"},
    {"OffsetsThree", one(R"("data_offsets":[0,4,4])", 0), "\"q\": data_offsets must be two numbers but got a third, 4"},
    {"OffsetsNegative", one(R"("data_offsets":[-1,4])", 0),
     "\"q\": data_offsets must hold integers from 0 to 2^64 - 1"},
    {"OffsetsFloat", one(R"("data_offsets":[0,4.5])", 0), "to 2^64 - 1 but got 4.5"},
    {"OffsetsAString", one(R"("data_offsets":"04")", 0),
     "data_offsets must be an array of two integers but got \"04\""},
    {"OffsetsBackwards", one(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])", 4),
     "must not go backwards but got [4, 0]"},
    {"TooLong", one(R"("dtype":"U8","shape":[4],"data_offsets":[0,5])", 5),
     "takes 4 bytes but its data_offsets span 5"},
    {"TooShort", one(R"("dtype":"U8","shape":[4],"data_offsets":[0,3])", 3),
     "takes 4 bytes but its data_offsets span 3"},
    {"DataCut", one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])", 3),
     "\"q\": must end within the file's 3 bytes"},
    {"Tail", one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])", 5),
     "end at byte 4 of the data but the file holds 5"},
    {"TailWithoutTensors", safetensors_text("{}", "x"), "end at byte 0 of the data but the file holds 1"},
    {"HoleAtTheFront", one(R"("dtype":"U8","shape":[4],"data_offsets":[1,5])", 5), "but begins at 1: hole"},
    {"Hole", two("[0,2]", "[3,5]", 5),
     "tensor \"b\": must begin at byte 2, where the tensor before it ends, but begins at 3"},
    {"Overlap", two("[0,2]", "[1,3]", 3), "tensor \"b\": must begin at byte 2"},
    {"SamePlace", two("[0,2]", "[0,2]", 2), "but begins at 0: overlap"},
    {"EmptyInsideAnother",
     safetensors_text(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                      R"("b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
                      "12"),
     "overlap"},
    {"NameTwice",
     safetensors_text(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                      R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                      R"("\u0061":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                      "123"),
     "tensor \"a\": a name must come once"},
    {"MetadataTwice", safetensors_text(R"({"__metadata__":{},"__metadata__":{}})"), "__metadata__ must come once"},
    {"MetadataANumber", safetensors_text(R"({"__metadata__":1})"), "__metadata__ must be an object but got 1"},
    {"MetadataOfNumbers", safetensors_text(R"({"__metadata__":{"a":1}})"),
     "__metadata__ \"a\": must be a string but got 1"},
    {"MetadataNested", safetensors_text(R"({"__metadata__":{"a":{}}})"), "\"a\": must be a string but got an object"},
    {"MetadataKeyTwice", safetensors_text(R"({"__metadata__":{"a":"1","a":"2"}})"),
     "keys must come once but \"a\" came"},
    {"NameOnTwoLines", safetensors_text(R"({"a\nb":1})"), "tensor \"a\\x0Ab\": must be"},
};

class SafetensorsLies : public testing::TestWithParam<Lie> {};
TEST_P(SafetensorsLies, AreFoundOut) {
  expect_found_out(GetParam(), "safetensors", [](const std::string& path) { SafetensorsFile{path}; });
}
INSTANTIATE_TEST_SUITE_P(, SafetensorsLies, testing::ValuesIn(safetensors_lies), lie_name);

TEST(SafetensorsHonest, UnusualFilesAreRead) {
  const ScratchFolder folder;
  const auto read = [&folder](const std::string& text) {
    write_text(folder / "a", text);
    return SafetensorsFile(folder / "a");
  };
  EXPECT_TRUE(read(safetensors_text(" \n\t{} \r\n")).tensors().empty())
      << "the Rust reader accepts leading white space";
  EXPECT_EQ(read(one(R"("data_offsets":[0,3],"shape":[4],"dtype":"F6_E2M3")", 3)).find("q")->bytes, 3U);
  EXPECT_EQ(read(one(R"("dtype":"U8","shape":[0,9],"data_offsets":[0,0])", 0)).find("q")->elements(), 0);
  const auto swapped = read(two("[2,4]", "[0,2]", 4));
  EXPECT_EQ(swapped.tensors()[0].name, "b") << "in the order of the data, not of the header";
  EXPECT_EQ(read(safetensors_text(R"({"__metadata__":{"":""},"":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", "1"))
                .read("")
                .data.size(),
            1U);
  const auto zeros = read(safetensors_text(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                           R"("y":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},)"
                                           R"("z":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                                           "1"));
  EXPECT_EQ(zeros.tensors().size(), 3U);
}

// ---- npy -----------------------------------------------------------------------------------------

std::string npy(const std::string& descr, const std::string& shape, std::size_t bytes) {
  return npy_text("{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + ", }\n",
                  std::string(bytes, '\1'));
}

std::string npy_front(int major, int minor, const std::string& rest) {
  return std::string("\x93NUMPY") + static_cast<char>(major) + static_cast<char>(minor) + rest;
}

const std::vector<Lie> npy_lies = {
    {"Empty", "", "must begin with \\x93NUMPY but this one of 0 bytes"},
    {"OtherMagic", "\x93NUMPZ\1\0\0\0", "must begin with \\x93NUMPY"},
    {"AZip", "PK\3\4 npz", "must begin with \\x93NUMPY"},
    {"CutAfterTheMagic", "\x93NUMPY", "the file ends within its length"},
    {"CutInTheLength", npy_front(2, 0, std::string(3, '\0')), "the file ends within its length"},
    {"VersionZero", npy_front(0, 0, std::string(8, '\0')), "must be 1.0, 2.0 or 3.0 but got 0.0"},
    {"VersionFour", npy_front(4, 0, std::string(8, '\0')), "but got 4.0"},
    {"VersionOneOne", npy_front(1, 1, std::string(8, '\0')), "but got 1.1"},
    {"HeaderBehindTheEnd", npy_front(1, 0, std::string("\xFF\0{}", 4)),
     "within the file's 12 bytes but its length says 255"},
    {"HeaderOf4GB", npy_front(2, 0, "\xFF\xFF\xFF\xFF{}"), "at most 65536 bytes but its length says 4294967295"},
    {"HeaderEmpty", npy_text(""), "must have '{' but ends"},
    {"HeaderOfZeros", npy_text(std::string(16, '\0')), "must be text but holds a byte 0"},
    {"HeaderCut", npy_text("{'descr': '<f4'"), "',' or '}' but ends"},
    {"StringCut", npy_text("{'descr': '<f4"), "a descr in quotes that ends"},
    {"NotADict", npy_text("[1]"), "must have '{' but got \"[1]\""},
    {"Latin1", npy_text("\xE9"), "but got \"\\xE9\""},
    {"TextBehind", npy_text("{'descr':'<f4','fortran_order':False,'shape':()}x"), "the header's end but got \"x\""},
    {"ACall", npy_text("{'descr': __import__('os')}"), "a descr in quotes but got \"__import__"},
    {"KeyBare", npy_text("{descr: '<f4'}"), "a key in quotes but got \"descr"},
    {"KeyUnknown", npy_text("{'order': 'C'}"), "keys must be descr, fortran_order, shape but got \"order\""},
    {"KeyTwice", npy_text("{'shape': (), 'shape': ()}"), "'shape' must come once"},
    {"KeyMissing", npy_text("{'descr': '<f4', 'shape': ()}"), "'fortran_order' but it is missing"},
    {"AllMissing", npy_text("{}"), "'descr' but it is missing"},
    {"NoColon", npy_text("{'descr' '<f4'}"), "must have ':'"},
    {"NoComma", npy_text("{'shape': () 'descr': '<f4'}"), "',' or '}'"},
    {"TwoCommas", npy_text("{'shape': (),, 'descr': '<f4'}"), "a key in quotes"},
    {"OrderANumber", npy_text("{'fortran_order': 1}"), "True or False for fortran_order but got \"1}\""},
    {"OrderAWord", npy_text("{'fortran_order': Falsey}"), "',' or '}' but got \"y}\""},
    {"Escape", npy_text("{'des\\x63r': '<f4'}"), "strings must be plain"},
    {"Objects", npy("'|O'", "(1,)", 8), "Python objects are not supported"},
    {"Strings", npy("'<U5'", "(1,)", 20), "strings are not supported"},
    {"Bytes", npy("'|S5'", "(1,)", 5), "strings are not supported"},
    {"Dates", npy("'<M8[ns]'", "(1,)", 8), "dates and times are not supported"},
    {"RawBytes", npy("'|V2'", "(1,)", 2), "use .safetensors) but got \"|V2\""},
    {"Structured", npy("[('x', '<f4')]", "(1,)", 4), "structured types are not supported"},
    {"LongDouble", npy("'<f16'", "(1,)", 16), "must be b1, i1 to i8"},
    {"ComplexDouble", npy("'<c16'", "(1,)", 16), "must be b1, i1 to i8"},
    {"NoByteOrder", npy("'|f4'", "(1,)", 4), "must say the byte order but got \"|f4\""},
    {"NativeByteOrder", npy("'=f4'", "(1,)", 4), "must begin with <, > or | but got \"=f4\""},
    {"DescrEmpty", npy("''", "(1,)", 4), "must begin with <, > or |"},
    {"DescrOneSign", npy("'<'", "(1,)", 4), "must be b1, i1 to i8"},
    {"ShapeNegative", npy("'<f4'", "(-1,)", 4), "must not be negative but got \"-1,)"},
    {"ShapeAFloat", npy("'<f4'", "(1.0,)", 4), "',' or ')' in shape"},
    {"ShapeAnInteger", npy("'<f4'", "4", 16), "must have '('"},
    {"ShapeInBrackets", npy("'<f4'", "(4)", 16), "must be a tuple but got an integer in brackets"},
    {"ShapeAList", npy("'<f4'", "[4]", 16), "must have '('"},
    {"ShapeOfNothing", npy("'<f4'", "(,)", 16), "an integer in shape"},
    {"ShapePast63Bits", npy("'<f4'", "(9223372036854775808,)", 4), "integers below 2^63"},
    {"ShapeOf65", npy("'<f4'", "(" + repeated("1,", 65) + ")", 4), "at most 64 dimensions"},
    {"ProductWrapsToZero", npy("'<f4'", "(4294967296, 4294967296)", 0), "fit 64 bits"},
    {"HugeShape", npy("'<f4'", "(1000000000000,)", 4), "takes 4000000000000 bytes but the file holds 4"},
    {"Cut", npy("'<f4'", "(2, 3)", 23), "takes 24 bytes but the file holds 23"},
    {"Tail", npy("'<f4'", "(2, 3)", 25), "takes 24 bytes but the file holds 25"},
};

class NpyLies : public testing::TestWithParam<Lie> {};
TEST_P(NpyLies, AreFoundOut) {
  expect_found_out(GetParam(), "npy", [](const std::string& path) { read_npy(path); });
}
INSTANTIATE_TEST_SUITE_P(, NpyLies, testing::ValuesIn(npy_lies), lie_name);

TEST(NpyHonest, UnusualFilesAreRead) {
  const ScratchFolder folder;
  const auto read = [&folder](const std::string& text) {
    write_text(folder / "a", text);
    return read_npy(folder / "a");
  };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(read(npy("'<f4'", "(2L, 3L)", 24)).shape, (Shape{2, 3})) << "Python 2 wrote its long integers so";
  EXPECT_EQ(read(npy("\"<f4\"", "( 2 ,3,\n)", 24)).shape, (Shape{2, 3}));
  EXPECT_EQ(read(npy_text("{\"shape\":(),\t\"fortran_order\":True,'descr':'>i2'}", "\x01\x02")).data,
            (std::vector<std::byte>{std::byte{2}, std::byte{1}}));
  EXPECT_EQ(read(npy("'>u1'", "(2,)", 2)).type, ElementType::u8) << "one byte has no order";
  EXPECT_EQ(read(npy("'<f8'", "(0, 1000)", 0)).elements(), 0);
  EXPECT_TRUE(read(npy("'<f8'", "(3, 0)", 0)).data.empty());
}

}  // namespace
}  // namespace rotary::test
