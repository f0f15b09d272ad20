// Any bytes as an .npy file are refused with one sentence, or read.
#include <cstring>

#include "core/tests/fuzz/fuzz.h"
#include "rotary/tensors.h"

namespace rotary::fuzz {
namespace {

std::string with_front(char major, std::string_view header, std::string_view data = {}) {
  std::string text = "\x93NUMPY";
  text += major;
  text += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return text.append(header).append(data);
}

void read(const std::string& text) {
  try {
    const MemoryFile memory(text);
    const Tensor tensor = read_npy(memory.path());
    require(tensor.data.size() == tensor.bytes, "data must be as long as bytes says");
    require(static_cast<std::uint64_t>(tensor.elements()) * bits_of(tensor.type) == tensor.bytes * 8,
            "shape must fill bytes");
    require(tensor.bytes + 10 <= text.size(), "the elements must fit the file");
  } catch (const Error& error) {
    require_refusal(error, "[npy] ", {"FORMAT"});
  }
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      with_front(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n", std::string(24, 'x')),
      with_front(2, "{'descr': '>i8', 'fortran_order': True, 'shape': (1, 2, 2), }\n", std::string(32, 'x')),
      with_front(3, "{\"shape\":(),\"fortran_order\":True,'descr':'|b1'}", "x"),
      with_front(1, "{'descr': '<c8', 'fortran_order': False, 'shape': (2L,), }", std::string(16, 'x')),
      with_front(1, "{'descr': '>f2', 'fortran_order': True, 'shape': (0, 9), }"),
  };
}

std::vector<std::string> words() {
  return words_of(R"(
'descr': 'shape': 'fortran_order': True False (2,) () ( -1 4294967296 '<f8' '|O' " ' \x41 L
9223372036854775807 ,)",
                  {"[('x', '<f4')]", std::string(1, '\0'), "\xE9"});
}

// Reads the input as it is, and with the length corrected, so that a search reaches the header's grammar.
void one(const std::string& input) {
  read(input);
  const std::size_t close = input.rfind('}');
  if (close != std::string::npos && close >= 10 && close < 60000) {
    const std::string_view text = input;
    read(with_front(1, text.substr(10, close - 9), text.substr(close + 1)));
  }
}

}  // namespace rotary::fuzz
