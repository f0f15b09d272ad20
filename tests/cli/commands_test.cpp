// What the program prints: tests/golden/commands/*.txt, which are transcripts of a shell. Lines of one:
//   = a name                  begins a case, in a folder of its own
//   file NAME TEXT            makes a file of one line; before the first case: in every case
//   tensors NAME JSON         makes a safetensors file or an .npy of {"q": [dtype, shape]}; values may stand third,
//                             metadata in "__metadata__"
//   $ a command               golden/ is tests/golden
//   > a line of standard output, ! of standard error; exit N: the status but 0
// ROTARY_WRITE_COMMANDS=1 writes what differs anew, for a change that is meant: git diff shows what it changes.
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "rotary/tensors.h"
#include "run.h"

namespace rotary::cli_tests {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

const fs::path golden = ROTARY_SOURCE_DIR "/tests/golden";

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
  const std::vector<double> values =
      said.size() > 2 ? said.at(2).get<std::vector<double>>() : converted<double>(some_values(count));
  if (type == ElementType::f64) return make_tensor(name, type, shape, values);
  if (type == ElementType::i64) return make_tensor(name, type, shape, converted<std::int64_t>(values));
  if (type == ElementType::i32) return make_tensor(name, type, shape, converted<std::int32_t>(values));
  if (type == ElementType::bf16) return make_tensor(name, type, shape, std::vector<std::uint16_t>(count, 0x3F80));
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

// The folder of one case, and beside it the program's name.
class Case {
 public:
  explicit Case(const Lines& files) {
    fs::create_directories(scratch_ / "here");
    fs::create_directory(scratch_ / "bin");
    fs::create_symlink(ROTARY_PROGRAM, scratch_ / "bin/rotary");
    fs::create_symlink(golden, scratch_ / "here/golden");
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
  Lines run(const std::string& command) const {
    const std::string all =
        "cd '" + (scratch_ / "here").string() +
        "' && PATH=\"$PWD/../bin:$PATH\" && export PATH LC_ALL=C.UTF-8 && unset COLUMNS ROTARY_TARGET && { " + command +
        "\n} >../out 2>../err";
    const int status = std::system(all.c_str());
    Lines lines;
    for (const auto& [file, mark] : {std::pair("out", ">"), std::pair("err", "!")}) {
      std::istringstream text(read_text(scratch_ / file));
      for (std::string line; std::getline(text, line);) lines.push_back(mark + (line.empty() ? "" : " " + line));
    }
    if (status != 0) lines.push_back("exit " + std::to_string(WEXITSTATUS(status)));
    return lines;
  }

 private:
  test::ScratchFolder scratch_;
};

class Commands : public testing::TestWithParam<std::string> {};

TEST_P(Commands, print_what_the_transcript_says) {
  const fs::path path = golden / "commands" / (GetParam() + ".txt");
  std::istringstream file(read_text(path));
  std::string again, name, command;
  Lines everywhere, expected;
  std::unique_ptr<Case> in;
  const auto settle = [&] {
    if (command.empty()) return;
    const Lines lines = in->run(command);
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
  for (const auto& entry : fs::directory_iterator(golden / "commands")) names.push_back(entry.path().stem().string());
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, Commands, testing::ValuesIn(transcripts()), [](const auto& file) { return file.param; });

}  // namespace
}  // namespace rotary::cli_tests
