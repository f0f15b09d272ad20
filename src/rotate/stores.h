// Whether a call out of place writes past the caches.
#pragma once

#include "rotary/rotary.h"

namespace rotary::detail {

// Throws VALUE.
void check_stores(const char* operation, Stores);
// For a call that reads so much, and writes as much.
bool streams(std::int64_t bytes_read, const RotateOptions&);

}  // namespace rotary::detail
