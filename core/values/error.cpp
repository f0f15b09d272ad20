#include "runtime/arithmetic.h"

#include "rotary/error.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include "fail.h"
#include "names.h"
#include "number_text.h"
#include "runtime/compiler.h"

namespace rotary {
namespace {

constexpr detail::Named<Code> rows[] = {
#define ROTARY_CODE(code) \
  { Code::code, #code }
    ROTARY_CODE(SHAPE),      ROTARY_CODE(DTYPE),        ROTARY_CODE(ALIAS),          ROTARY_CODE(POSITION),
    ROTARY_CODE(SCALING),    ROTARY_CODE(PAIRING),      ROTARY_CODE(LENGTH),         ROTARY_CODE(TARGET),
    ROTARY_CODE(FILE),       ROTARY_CODE(FORMAT),       ROTARY_CODE(TENSOR),         ROTARY_CODE(JSON),
    ROTARY_CODE(CONFIG_KEY), ROTARY_CODE(CONFIG_VALUE), ROTARY_CODE(CONFIG_MISSING), ROTARY_CODE(MODEL_TYPE),
    ROTARY_CODE(ROPE),       ROTARY_CODE(VALUE),        ROTARY_CODE(TEXT),           ROTARY_CODE(PRESET),
    ROTARY_CODE(RESUME),     ROTARY_CODE(CUDA),         ROTARY_CODE(DEVICE),         ROTARY_CODE(TORCH),
    ROTARY_CODE(PEER),       ROTARY_CODE(NUMBER),       ROTARY_CODE(CHECK),          ROTARY_CODE(MEMORY),
    ROTARY_CODE(INTERNAL),
#undef ROTARY_CODE
};

std::atomic<FailureHandler> failure_handler{nullptr};

constexpr auto all = [] {
  std::array<Code, std::size(rows)> values{};
  std::transform(std::begin(rows), std::end(rows), values.begin(), [](const auto& row) { return row.value; });
  return values;
}();
static_assert(all.back() == Code::INTERNAL && static_cast<std::size_t>(Code::INTERNAL) + 1 == all.size());

// "[operation] about: rule", on one line
std::string whole_sentence(std::string_view operation, std::string_view about, std::string_view rule) {
  std::string sentence = "[";
  sentence.append(operation).append("] ");
  if (!about.empty()) sentence.append(about).append(": ");
  return detail::printable(sentence.append(rule));
}

}  // namespace

FailureHandler on_failure(FailureHandler handler) noexcept { return failure_handler.exchange(handler); }

const char* name(Code code) noexcept { return detail::name_in(rows, code); }

Code parse_code(std::string_view text) { return detail::parse_in(rows, text, "parse_code", Code::VALUE); }

std::span<const Code> codes() noexcept { return all; }

std::string detail::printable(std::string_view text) {
  constexpr const char* digits = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F)
      result += c;
    else
      result.append({'\\', 'x', digits[byte >> 4], digits[byte & 15]});
  }
  return result;
}

void detail::SentencePart::append_to(std::string& sentence) const {
  if (kind_ == integer) {
    sentence += std::to_string(integer_);
  } else if (kind_ == natural) {
    sentence += std::to_string(static_cast<std::uint64_t>(integer_));
  } else if (kind_ == real) {
    sentence += shortest(real_);
  } else if (kind_ == single) {
    sentence += shortest(static_cast<float>(real_));
  } else {
    sentence.append(text_, kind_);
  }
}

Error::Error(Code code, std::string_view operation, std::string_view rule, std::string_view about)
    : std::runtime_error(whole_sentence(operation, about, rule)),
      operation_(operation.size()),
      about_(detail::printable(about).size()),
      code_(code) {}

std::string_view Error::rule() const noexcept {
  return std::string_view(what()).substr(operation_ + 3 + (about_ == 0 ? 0 : about_ + 2));
}

Error Error::about(std::string_view outer) const {
  std::string both(outer);
  if (about_ != 0) both.append(": ").append(about());
  return {code_, operation(), rule(), both};
}

void detail::fail_with(Code code, std::string_view operation, const SentencePart* parts, std::size_t count) {
  std::string rule;
  for (std::size_t i = 0; i < count; ++i) parts[i].append_to(rule);
#if ROTARY_THROWS
  throw Error(code, operation, rule);
#else
  if (const FailureHandler handler = failure_handler.load()) handler(code, whole_sentence(operation, {}, rule).c_str());
  std::abort();
#endif
}

}  // namespace rotary
