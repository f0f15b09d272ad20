// What the program prints: tests/golden/commands/*.txt, which are transcripts of a shell. Lines of one:
//   = a name                  begins a case, in a folder of its own
//   file NAME TEXT            makes a file of one line; before the first case: in every case
//   tensors NAME JSON         makes a safetensors file or an .npy of {"q": [dtype, shape]}; values may stand third,
//                             metadata in "__metadata__"
//   $ a command               golden/ is tests/golden
//   values FILE [NAME]        as a command: what a tensor of a safetensors file, or an .npy, holds
//   > a line of standard output, ! of standard error; exit N: the status but 0
// ROTARY_WRITE_COMMANDS=1 writes what differs anew, for a change that is meant: git diff shows what it changes.
#include <cstdlib>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "rotary/tensors.h"
#include "run.h"
#include "values/number_text.h"

namespace rotary::cli_tests {
namespace {

namespace fs = std::filesystem;

template <typename T, typename From>
std::vector<T> converted(const std::vector<From>& values) {
  std::vector<T> result;
  for (const From value : values) result.push_back(static_cast<T>(value));
  return result;
}

Tensor tensor_of(const std::string& name, const nlohmann::json& said) {
  const ElementType type = parse_element_type(said.at(0).get<std::string>());
  const std::vector<std::int64_t> shape = said.at(1);
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::vector<double> values = converted<double>(some_values(count));
  if (said.size() > 2) {
    values.clear();
    for (const auto& value : said.at(2))  // "nan" and "inf" are no JSON
      values.push_back(value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>());
  }
  if (type == ElementType::f64) return make_tensor(name, type, shape, values);
  if (type == ElementType::i64) return make_tensor(name, type, shape, converted<std::int64_t>(values));
  if (type == ElementType::i32) return make_tensor(name, type, shape, converted<std::int32_t>(values));
  if (type == ElementType::bf16) {
    std::vector<std::uint16_t> bits;
    for (const double value : values) bits.push_back(to_bf16(said.size() > 2 ? static_cast<float>(value) : 1).bits);
    return make_tensor(name, type, shape, bits);
  }
  if (type == ElementType::f32) return make_tensor(name, type, shape, converted<float>(values));
  throw std::runtime_error("no type of a transcript's tensors: " + said.dump());
}

void write_tensor_file(const fs::path& file, const nlohmann::json& said) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : said.items())
    if (name != "__metadata__") tensors.push_back(tensor_of(name, tensor));
  if (file.extension() == ".npy") {
    write_npy(file, tensors.at(0));
  } else {
    write_safetensors(file, test::pointers_to(tensors),
                      said.value("__metadata__", std::map<std::string, std::string>()));
  }
}

template <typename T, typename Value>
std::string listed(const Tensor& tensor, Value value) {
  std::string text;
  for (const T element : test::values_of<T>(tensor)) text += " " + detail::shortest(value(element));
  return text;
}

// "F32 [2, 2] 1 0.5 -1 0".
std::string text_of(const Tensor& tensor) {
  const std::string head = std::string(name(tensor.type)) + " " + detail::shape_text(tensor.shape);
  const auto same = [](auto value) { return value; };
  switch (tensor.type) {
    case ElementType::f64:
      return head + listed<double>(tensor, same);
    case ElementType::bf16:
      return head + listed<bf16>(tensor, [](bf16 value) { return to_float(value); });
    case ElementType::f16:
      return head + listed<f16>(tensor, [](f16 value) { return to_float(value); });
    case ElementType::f32:
      return head + listed<float>(tensor, same);
    default:
      throw std::runtime_error("a transcript lists no values of " + head);
  }
}

// The folder of one case, and beside it the program's name.
class Case {
 public:
  explicit Case(const Strings& files) {
    fs::create_directories(scratch_ / "here");
    fs::create_directory(scratch_ / "bin");
    fs::create_symlink(ROTARY_PROGRAM, scratch_ / "bin/rotary");
    fs::create_directory_symlink(golden_folder, scratch_ / "here/golden");
    for (const std::string& line : files) make(line);
  }
  void make(const std::string& line) const {
    std::istringstream words(line);
    std::string kind, name, rest;
    words >> kind >> name >> std::ws;
    std::getline(words, rest);
    const fs::path file = scratch_ / "here" / name;
    if (kind == "file") return write_text(file, rest);
    if (kind != "tensors") throw std::runtime_error("no line of a transcript: " + line);
    write_tensor_file(file, nlohmann::json::parse(rest));
  }
  // Its lines, as the transcript has them.
  Strings run(const std::string& command) const {
    if (command.starts_with("values ")) return {"> " + values(command)};
    const std::string all =
        "cd '" + (scratch_ / "here").string() +
        "' && PATH=\"$PWD/../bin:$PATH\" && export PATH LC_ALL=C.UTF-8 && unset COLUMNS ROTARY_TARGET && { " + command +
        "\n} >../out 2>../err";
    const int status = std::system(all.c_str());
    Strings lines;
    for (const auto& [file, mark] : {std::pair("out", ">"), std::pair("err", "!")}) {
      std::istringstream text(read_text(scratch_ / file));
      for (std::string line; std::getline(text, line);) lines.push_back(mark + (line.empty() ? "" : " " + line));
    }
    if (status != 0) lines.push_back("exit " + std::to_string(WEXITSTATUS(status)));
    return lines;
  }

 private:
  std::string values(const std::string& command) const {
    std::istringstream words(command);
    std::string file, tensor;
    words >> file >> file >> tensor;
    const fs::path path = scratch_ / "here" / file;
    return text_of(path.extension() == ".npy" ? read_npy(path) : SafetensorsFile(path).read(tensor));
  }

  test::ScratchFolder scratch_;
};

class Commands : public testing::TestWithParam<std::string> {};

TEST_P(Commands, print_what_the_transcript_says) {
  const fs::path path = fs::path(golden_folder) / "commands" / (GetParam() + ".txt");
  std::istringstream file(read_text(path));
  std::string again, name, command;
  Strings everywhere, expected;
  std::unique_ptr<Case> in;
  const auto settle = [&] {
    if (command.empty()) return;
    const Strings lines = in->run(command);
    EXPECT_EQ(lines, expected) << name << ": " << command;
    for (const std::string& line : lines) again += line + "\n";
    command.clear();
    expected.clear();
  };
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(">") || line.starts_with("! ") || line.starts_with("exit ")) {
      expected.push_back(line);
      continue;
    }
    settle();
    again += line + "\n";
    if (line.empty() || line.starts_with("#")) continue;
    if (line.starts_with("= ")) {
      in = std::make_unique<Case>(everywhere);
      name = line.substr(2);
    } else if (line.starts_with("$ ")) {
      command = line.substr(2);
    } else if (line.starts_with("values ")) {
      command = line;
    } else if (in == nullptr) {
      everywhere.push_back(line);
    } else {
      in->make(line);
    }
  }
  settle();
  EXPECT_NE(in, nullptr);
  if (std::getenv("ROTARY_WRITE_COMMANDS") != nullptr) write_text(path, again);
}

std::vector<std::string> transcripts() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(golden_folder) / "commands"))
    names.push_back(entry.path().stem().string());
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, Commands, testing::ValuesIn(transcripts()), [](const auto& file) { return file.param; });

}  // namespace
}  // namespace rotary::cli_tests
