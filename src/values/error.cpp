#include "rotary/error.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "fail.h"
#include "names.h"

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
    ROTARY_CODE(NETWORK),    ROTARY_CODE(RESUME),       ROTARY_CODE(CUDA),           ROTARY_CODE(DEVICE),
    ROTARY_CODE(TORCH),      ROTARY_CODE(MPI),          ROTARY_CODE(NCCL),           ROTARY_CODE(PEER),
    ROTARY_CODE(NUMBER),     ROTARY_CODE(CHECK),        ROTARY_CODE(MEMORY),         ROTARY_CODE(INTERNAL),
#undef ROTARY_CODE
};

constexpr auto all = [] {
  std::array<Code, std::size(rows)> values{};
  std::transform(std::begin(rows), std::end(rows), values.begin(), [](const auto& row) { return row.value; });
  return values;
}();
static_assert(all.back() == Code::INTERNAL && static_cast<std::size_t>(Code::INTERNAL) + 1 == all.size());

}  // namespace

const char* name(Code code) noexcept { return detail::name_in(rows, code); }

Code parse_code(std::string_view text) { return detail::parse_in(rows, text, "parse_code", Code::VALUE); }

std::span<const Code> codes() noexcept { return all; }

void detail::fail(Code code, std::string_view operation, const std::string& sentence) {
  throw Error(code, "[" + std::string(operation) + "] " + sentence);
}

}  // namespace rotary
