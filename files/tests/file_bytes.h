// Files built byte by byte, valid or not.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace rotary::test {

template <typename T>
std::string gguf_value(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

inline std::string gguf_text(std::string_view text) { return gguf_value<std::uint64_t>(text.size()).append(text); }

inline std::string gguf_key(std::string_view key, std::uint32_t type, const std::string& value) {
  return gguf_text(key) + gguf_value(type) + value;
}

inline std::string gguf_number(std::string_view key, std::uint32_t value) {
  return gguf_key(key, 4, gguf_value(value));
}

inline std::string gguf_front(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
  return "GGUF" + gguf_value(version) + gguf_value(tensors) + gguf_value(keys);
}

inline std::string gguf_tensor(std::string_view name, std::initializer_list<std::uint64_t> shape, std::uint32_t type,
                               std::uint64_t offset) {
  std::string bytes = gguf_text(name) + gguf_value(static_cast<std::uint32_t>(shape.size()));
  for (const std::uint64_t axis : shape) bytes += gguf_value(axis);
  return bytes + gguf_value(type) + gguf_value(offset);
}

// The five keys that every model has: two layers of 4 heads of 16 elements.
constexpr std::uint64_t gguf_model_keys = 5;
inline std::string gguf_model(const std::string& name) {
  return gguf_key("general.architecture", 8, gguf_text(name)) + gguf_number(name + ".block_count", 2) +
         gguf_number(name + ".embedding_length", 64) + gguf_number(name + ".attention.head_count", 4) +
         gguf_number(name + ".attention.head_count_kv", 2);
}

inline std::string gguf_file(const std::string& name, std::uint64_t more_keys = 0, const std::string& more = {}) {
  return gguf_front(0, gguf_model_keys + more_keys) + gguf_model(name) + more;
}

// Appends the tensor's data at the next multiple of 32.
inline std::string gguf_with_tensor(std::string front, std::string_view data) {
  front.resize((front.size() + 31) / 32 * 32, '\0');
  return front.append(data);
}

// A safetensors file with any header and the correct header length.
inline std::string safetensors_text(std::string_view header, std::string_view data = {}) {
  return gguf_text(header).append(data);
}

// An .npy file with any header and the correct header length.
inline std::string npy_text(std::string_view header, std::string_view data = {}, char version = 1) {
  const std::string front = std::string("\x93NUMPY") + version + '\0';
  const auto length = static_cast<std::uint32_t>(header.size());
  return (front + gguf_value(length).substr(0, version == 1 ? 2 : 4)).append(header).append(data);
}

}  // namespace rotary::test
