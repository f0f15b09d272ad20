// The check of --seed.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

namespace rotary::cli {

// CLI11 itself would wrap -1 around and clamp 2^64.
inline CLI::Validator seed_word() {
  const auto refusal = [](const std::string& word) -> std::string {
    std::uint64_t seed = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), seed);
    const bool good = status == std::errc() && end == word.data() + word.size();
    return good ? "" : "must be an integer from 0 to 2^64 - 1 but got " + word;
  };
  return {refusal, ""};
}

}  // namespace rotary::cli
