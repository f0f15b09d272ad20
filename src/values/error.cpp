#include "runtime/arithmetic.h"

#include "rotary/error.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
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

}  // namespace

FailureHandler on_failure(FailureHandler handler) noexcept { return failure_handler.exchange(handler); }

const char* name(Code code) noexcept { return detail::name_in(rows, code); }

Code parse_code(std::string_view text) { return detail::parse_in(rows, text, "parse_code", Code::VALUE); }

std::span<const Code> codes() noexcept { return all; }

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

void detail::fail_with(Code code, std::string_view operation, const SentencePart* parts, std::size_t count) {
  std::string whole = "[" + std::string(operation) + "] ";
  for (std::size_t i = 0; i < count; ++i) parts[i].append_to(whole);
#if ROTARY_THROWS
  throw Error(code, whole);
#else
  if (const FailureHandler handler = failure_handler.load()) handler(code, whole.c_str());
  std::abort();
#endif
}

}  // namespace rotary
