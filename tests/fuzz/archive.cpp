// Any bytes as an archive of tensors, and as the pickle of one: refused in one sentence, or read.
#include "fuzz.h"
#include "rotary/tensors.h"
#include "tests/support/zip.h"

namespace rotary::fuzz {
namespace {

void read(const std::string& text) {
  if (!text.starts_with("PK\3\4")) return;  // the other format's target
  try {
    const MemoryFile memory(text);
    const SafetensorsFile file(memory.path());
    for (const TensorInfo& info : file.tensors()) {
      require(static_cast<std::uint64_t>(info.elements()) * bits_of(info.type) == info.bytes * 8,
              "shape must fill bytes");
      require(info.bytes <= text.size(), "the elements must fit the file");
      require(file.read(info.name).data.size() == info.bytes, "data must be as long as bytes says");
    }
  } catch (const Error& error) {
    require_refusal(error, "[", {"FORMAT"});
  }
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string tensor = test::pickled_tensor({3, 2}, {1, 3});
  const std::string npy = std::string("\x93NUMPY\1\0\x3D\0", 10) +
                          "{'descr': '>i4', 'fortran_order': True, 'shape': (1, 2), }   \n" + std::string(8, 'x');
  return {test::torch_file(tensor),
          test::zip_of({{"q.npy", npy}, {"k.npy", npy}}),
          test::zip_of({{"q.npy", npy}}, 0, true),
          tensor,
          "](" + tensor + "q\1h\1N\x88K\1M\1\1Gxxxxxxxxe",
          "}(" + test::pickled("a") + tensor + "u" + test::pickled(1) + "]s"};
}

std::vector<std::string> words() {
  return {test::pickled("a"),
          test::pickled(7),
          test::pickled_tensor({6}, {1}),
          "(t",
          "\x85",
          "ccollections\nOrderedDict\n)R",
          "PK\1\2",
          "PK\3\4",
          "PK\5\6",
          "PK\6\7",
          std::string(4, '\xFF'),
          std::string(4, '\0')};
}

void one(const std::string& input) {
  read(input);
  read(test::torch_file(input));
}

}  // namespace rotary::fuzz
