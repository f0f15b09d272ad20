// Any bytes as an .npy file are refused with one sentence, or read.
#include "core/tests/fuzz/fuzz.h"
#include "files/tests/file_bytes.h"
#include "rotary/tensors.h"

namespace rotary::fuzz {
namespace {

using test::npy_text;

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
      npy_text("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n", std::string(24, 'x')),
      npy_text("{'descr': '>i8', 'fortran_order': True, 'shape': (1, 2, 2), }\n", std::string(32, 'x'), 2),
      npy_text("{\"shape\":(),\"fortran_order\":True,'descr':'|b1'}", "x", 3),
      npy_text("{'descr': '<c8', 'fortran_order': False, 'shape': (2L,), }", std::string(16, 'x')),
      npy_text("{'descr': '>f2', 'fortran_order': True, 'shape': (0, 9), }"),
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
    read(npy_text(text.substr(10, close - 9), text.substr(close + 1)));
  }
}

}  // namespace rotary::fuzz
