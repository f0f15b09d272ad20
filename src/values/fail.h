// How every function of the library throws.
#pragma once

#include <string>
#include <string_view>

#include "rotary/error.h"

namespace rotary {
namespace detail {

// Throws Error(code, "[operation] sentence").
[[noreturn, gnu::cold]] ROTARY_API void fail(Code code, std::string_view operation, const std::string& sentence);

}  // namespace detail

using detail::fail;

}  // namespace rotary
