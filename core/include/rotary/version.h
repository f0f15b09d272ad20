// The version: the macros are the version of these headers, version() is that of the linked library.
#pragma once

#include "rotary/export.h"

#define ROTARY_VERSION_MAJOR 0
#define ROTARY_VERSION_MINOR 1
#define ROTARY_VERSION_PATCH 0
#define ROTARY_VERSION "0.1.0"

namespace rotary {

ROTARY_API const char* version() noexcept;  // as "1.2.3"

}  // namespace rotary
