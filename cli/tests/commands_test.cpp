// Runs cli/tests/transcripts/*.txt, transcripts of a shell, and compares the output. Their lines:
//   = NAME                    begins a case, in a folder of its own
//   file, tensors             make a file (shell.h); before the first case they count for every case
//   $ COMMAND                 is run in the shell
//   values FILE [NAME]        stands for a command that prints a tensor of a safetensors file, or an .npy
//   > a line of standard output, ! of standard error; exit N: a status other than 0
// ROTARY_WRITE_COMMANDS=1 renews the transcripts after an intended change; git diff shows the changes.
#include <cstdlib>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "shell.h"
#include "values/number_text.h"

namespace rotary::cli_tests {
namespace {

namespace fs = std::filesystem;

template <typename T, typename Value>
std::string listed(const Tensor& tensor, Value value) {
  std::string text;
  for (const T element : test::values_of<T>(tensor)) text += " " + detail::shortest(value(element));
  return text;
}

// "F32 [2, 2] 1 0.5 -1 0".
std::string values_text(const Tensor& tensor) {
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

// The lines of a transcript for a command.
Strings transcript_of(const Shell& shell, const std::string& command) {
  if (command.starts_with("values ")) {
    std::istringstream words(command);
    std::string file, tensor;
    words >> file >> file >> tensor;
    const fs::path path = shell.path(file);
    return {"> " + values_text(path.extension() == ".npy" ? read_npy(path) : SafetensorsFile(path).read(tensor))};
  }
  const Result result = shell.run(command);
  Strings lines;
  for (const auto& [text, mark] : {std::pair(result.out, ">"), std::pair(result.err, "!")}) {
    for (const std::string& line : lines_of(text)) lines.push_back(mark + (line.empty() ? "" : " " + line));
  }
  if (result.exit != 0) lines.push_back("exit " + std::to_string(result.exit));
  return lines;
}

const fs::path transcript_folder = ROTARY_SOURCE_DIR "/cli/tests/transcripts";

class Commands : public testing::TestWithParam<std::string> {};

TEST_P(Commands, print_what_the_transcript_says) {
  const fs::path path = transcript_folder / (GetParam() + ".txt");
  std::istringstream file(read_text(path));
  std::string again, name, command;
  Strings everywhere, expected;
  std::unique_ptr<Shell> in;
  const auto settle = [&] {
    if (command.empty()) return;
    const Strings lines = transcript_of(*in, command);
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
      in = std::make_unique<Shell>();
      for (const std::string& each : everywhere) in->make(each);
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
  for (const auto& entry : fs::directory_iterator(transcript_folder)) names.push_back(entry.path().stem().string());
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, Commands, testing::ValuesIn(transcripts()), [](const auto& file) { return file.param; });

}  // namespace
}  // namespace rotary::cli_tests
