// Any bytes as a .safetensors file are refused with one sentence, or are read, and are the same when they are written
// and read again.
#include "core/tests/fuzz/fuzz.h"
#include "files/tests/file_bytes.h"
#include "rotary/tensors.h"
#include "tensors/safetensors_header.h"

namespace rotary::fuzz {
namespace {

using test::safetensors_text;

// The bytes of the file that write_safetensors writes.
std::string written(const std::vector<Tensor>& tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  std::string text = files::make_header(pointers, metadata);
  for (const Tensor& tensor : tensors) {
    text.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  }
  return text;
}

std::vector<Tensor> read_all(const SafetensorsFile& file) {
  std::vector<Tensor> tensors;
  for (const TensorInfo& info : file.tensors()) {
    require(file.find(info.name) == &info, "find must give the tensor of that name");
    tensors.push_back(file.read(info.name));
    require(tensors.back().data.size() == info.bytes, "data must be as long as bytes says");
    require(static_cast<std::uint64_t>(info.elements()) * bits_of(info.type) == info.bytes * 8,
            "shape must fill bytes");
  }
  return tensors;
}

void read_and_write(const std::string& text) {
  try {
    const MemoryFile memory(text);
    const SafetensorsFile file(memory.path());
    const std::vector<Tensor> tensors = read_all(file);
    std::size_t bytes = 0;
    for (const Tensor& tensor : tensors) bytes += tensor.data.size();
    require(bytes + 8 <= text.size(), "the tensors must fit the file");

    const std::string again = written(tensors, file.metadata());
    const MemoryFile second(again);
    const SafetensorsFile copy(second.path());
    require(copy.metadata() == file.metadata(), "metadata must come back");
    require(written(read_all(copy), copy.metadata()) == again, "write(read(x)) must be x for what was written");
  } catch (const Error& error) {
    require_refusal(error, "[safetensors] ", {"FORMAT"});
  }
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      safetensors_text("{}"),
      safetensors_text(R"({"q":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd"),
      safetensors_text(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
                       R"("b":{"dtype":"U8","shape":[],"data_offsets":[12,13]}})",
                       "0123456789abc"),
      safetensors_text(
          R"({"b":{"dtype":"F4","shape":[0,4],"data_offsets":[3,3]},"\u00e9":{"dtype":"F6_E2M3","shape":[4],)"
          R"("data_offsets":[0,3]}} )",
          "xyz"),
  };
}

std::vector<std::string> words() {
  return words_of(R"(
"dtype": "shape": "data_offsets": "__metadata__": [0,4] [0,0] {} [] null 4294967296 9223372036854775807
18446744073709551615 -0 1e3 "F32" "F4" "U64" \u0000 \ud800 ,"q":{ [[[[ {"a":)",
                  {std::string(1, '\0'), "\xFF", "\xEF\xBB\xBF", " "});
}

// Reads the input as it is, and with the length corrected, so that a search reaches the header's grammar.
void one(const std::string& input) {
  read_and_write(input);
  const std::size_t close = input.rfind('}');
  if (close != std::string::npos && close >= 8) {
    read_and_write(
        safetensors_text(std::string_view(input).substr(8, close - 7), std::string_view(input).substr(close + 1)));
  }
}

}  // namespace rotary::fuzz
