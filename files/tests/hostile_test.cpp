// Every way in which a tensor file can lie has its own sentence, and no lie of any format leads to a large request for
// memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <new>
#include <sstream>

#include "files/tests/file_helpers.h"
#include "rotary/config.h"
#include "rotary/error.h"

// The largest single request since it was set to 0, and the sum of all.
static std::size_t largest_request = 0, requested = 0;

// Not inlined: g++ 12 would take malloc and free for a mismatch. std::stable_sort asks with nothrow.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  largest_request = std::max(largest_request, size);
  requested += size;
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
  std::string name, words, file;  // words of the sentence
};

// "\x41" is A.
std::string unescaped(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text.compare(i, 2, "\\x") == 0;
    bytes += escape ? static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16)) : text[i];
    i += escape ? 3 : 0;
  }
  return bytes;
}

// The lies about a format in files/tests/golden/lies.txt, which describes its lines.
std::vector<Lie> lies_about(const std::string& format) {
  std::vector<Lie> lies;
  std::ifstream file(ROTARY_SOURCE_DIR "/files/tests/golden/lies.txt");
  for (std::string line, asked, kind, text; std::getline(file, line);) {
    std::istringstream fields(line);
    Lie lie;
    if (!std::getline(fields, asked, '\t') || asked != format) continue;
    std::getline(std::getline(fields, lie.name, '\t'), lie.words, '\t');
    std::getline(std::getline(fields, kind, '\t'), text);
    lie.words = unescaped(lie.words);
    lie.file = unescaped(text);
    std::size_t count = kind == "file" ? 0 : std::stoul(kind.substr(kind.find(' ')));
    if (kind.starts_with("deep ")) {
      lie.file.insert(lie.file.size() - 1, std::string(count, '['));
      count = 0;
    }
    const std::string data(count, '\1');
    if (kind != "file") lie.file = format == "npy" ? npy_text(lie.file, data) : safetensors_text(lie.file, data);
    lies.push_back(lie);
  }
  EXPECT_GT(lies.size(), 40U);
  return lies;
}

template <typename Read>
void expect_lies_found_out(const std::string& operation, const Read& read) {
  const ScratchFolder folder;
  const std::string path = (folder / "lie").string();
  for (const Lie& lie : lies_about(operation)) {
    SCOPED_TRACE(lie.name);
    write_text(path, lie.file);
    largest_request = 0;
    expect_error("FORMAT", lie.words, [&] { read(path); });
    EXPECT_LT(largest_request, 4 * lie.file.size() + 4096);
    expect_error("FORMAT", "[" + operation + "] " + path + ": ", [&] { read(path); });
  }
}

// ---- safetensors ---------------------------------------------------------------------------------

// One tensor "q" with these fields and n bytes of data.
std::string one(const std::string& fields, std::size_t bytes) {
  return safetensors_text("{\"q\":{" + fields + "}}", std::string(bytes, '\1'));
}

// Two tensors of u8, "a" and "b", with these offsets.
std::string two(const std::string& a, const std::string& b, std::size_t bytes) {
  const std::string shape = R"("dtype":"U8","shape":[2],"data_offsets":)";
  return safetensors_text("{\"a\":{" + shape + a + "},\"b\":{" + shape + b + "}}", std::string(bytes, '\1'));
}

TEST(SafetensorsLies, AreFoundOut) {
  expect_lies_found_out("safetensors", [](const std::string& path) { SafetensorsFile{path}; });
}

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

TEST(NpyLies, AreFoundOut) {
  expect_lies_found_out("npy", [](const std::string& path) { read_npy(path); });
}

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

// ---- two gigabytes that are declared -------------------------------------------------------------

void read_any(const std::filesystem::path& path) {
  if (path.extension() == ".safetensors") {
    SafetensorsFile{path};
  } else if (path.extension() == ".npy") {
    read_npy(path);
  } else if (path.filename() == "models.json") {
    use_models(path);
  } else {
    read_config(path);
  }
}

// Once with nothing behind the declaration, once in a sparse file of that size.
TEST(Declared, TwoGigabytesTakeNoMemory) {
  constexpr std::uint64_t size = std::uint64_t{1} << 31;
  const std::string many = gguf_value(size), list = gguf_front(0, 1) + gguf_text("x") + gguf_value(9U);
  const std::string number = std::to_string(size);
  const std::pair<const char*, std::string> declarations[] = {
      {"header.safetensors", many},
      {"data.safetensors",
       safetensors_text(R"({"q":{"dtype":"U8","shape":[)" + number + R"(],"data_offsets":[0,)" + number + "]}}", "")},
      {"header.npy", npy_text("", "", 2).substr(0, 8) + many.substr(0, 4)},
      {"data.npy", npy("'|u1'", "(" + number + ",)", 0)},
      {"tensors.gguf", gguf_front(size, 0)},
      {"keys.gguf", gguf_front(0, size)},
      {"text.gguf", gguf_front(0, 1) + many},
      {"list.gguf", list + gguf_value(4U) + many},
      {"nested.gguf", list + gguf_value(9U) + many},
      {"config.json", R"({"model_type": "llama", "rope_theta": [)"},
      {"models.json", R"({"schema": 1, "data": ")"}};
  const ScratchFolder folder;
  for (const auto& [name, text] : declarations) {
    SCOPED_TRACE(name);
    write_text(folder / name, text);
    for (const bool sparse : {false, true}) {
      if (sparse) std::filesystem::resize_file(folder / name, size + 4096);
      requested = 0;
      EXPECT_THROW(read_any(folder / name), Error);
      EXPECT_LT(requested, 1'000'000U);
    }
  }
}

}  // namespace
}  // namespace rotary::test
