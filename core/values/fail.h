// The way in which every function of the library throws.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rotary/error.h"

namespace rotary {
namespace detail {

// text on one line, with control characters as \xNN, so that a name from a file cannot add lines to the output. Every
// sentence of an Error is printable.
ROTARY_API std::string printable(std::string_view text);

// A part of a sentence: text, or a number as written by std::to_string (integers) or shortest() of number_text.h. Keeps
// a pointer to its text.
class SentencePart {
 public:
  SentencePart(const char* text) noexcept : SentencePart(std::string_view(text)) {}         // NOLINT: implicit, as each
  SentencePart(const std::string& text) noexcept : SentencePart(std::string_view(text)) {}  // NOLINT
  SentencePart(std::string_view text) noexcept : text_(text.data()), kind_(text.size()) {}  // NOLINT
  SentencePart(const char& letter) noexcept : text_(&letter), kind_(1) {}                   // NOLINT
  SentencePart(double number) noexcept : real_(number), kind_(real) {}                      // NOLINT
  SentencePart(float number) noexcept : real_(number), kind_(single) {}                     // NOLINT
  template <std::integral Integer>
  SentencePart(Integer number) noexcept  // NOLINT
      : integer_(static_cast<std::int64_t>(number)), kind_(std::signed_integral<Integer> ? integer : natural) {}
  ROTARY_API void append_to(std::string&) const;

 private:
  static constexpr std::size_t integer = static_cast<std::size_t>(-1), natural = integer - 1, real = integer - 2,
                               single = integer - 3;
  union {
    const char* text_;
    std::int64_t integer_;
    double real_;
  };
  std::size_t kind_;  // one of these, or the length of the text
};

template <class... Parts>
std::string sentence_of(const Parts&... parts) {
  std::string sentence;
  (SentencePart(parts).append_to(sentence), ...);
  return sentence;
}

[[noreturn, gnu::cold]] ROTARY_API void fail_with(Code, std::string_view operation, const SentencePart* parts,
                                                  std::size_t count);

// Throws Error(code, operation, rule), with the rule in parts, which are joined only here.
template <class... Parts>
[[noreturn, gnu::cold]] void fail(Code code, std::string_view operation, const Parts&... rule) {
  const SentencePart parts[] = {rule...};
  fail_with(code, operation, parts, sizeof...(rule));
}

}  // namespace detail

using detail::fail;

}  // namespace rotary
