#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fuzz.h"
#include "json_changes.h"

namespace {

std::string text_of(const std::uint8_t* data, std::size_t size) { return {reinterpret_cast<const char*>(data), size}; }

// The number of bytes; 0 where the text does not fit.
std::size_t put(const std::string& text, std::uint8_t* out, std::size_t max_size) {
  if (text.size() > max_size) return 0;
  std::copy(text.begin(), text.end(), out);
  return text.size();
}

}  // namespace

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rotary::fuzz::one(text_of(data, size));
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  const std::string text = text_of(data, size);
  const std::string other = seed % 2 == 0 ? rotary::fuzz::changed(text, text, seed) : text;
  const std::size_t changed = other == text ? 0 : put(other, data, max_size);
  return changed != 0 ? changed : LLVMFuzzerMutate(data, size, max_size);
}

std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data, std::size_t size, const std::uint8_t* other,
                                      std::size_t other_size, std::uint8_t* out, std::size_t max_size, unsigned seed) {
  return put(rotary::fuzz::changed(text_of(data, size), text_of(other, other_size), seed), out, max_size);
}
}
