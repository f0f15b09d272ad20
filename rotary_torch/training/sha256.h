// SHA-256 (FIPS 180-4), for downloaded texts and for the texts recorded in checkpoints.
#pragma once

#include <string>
#include <string_view>

namespace rotary_torch {

std::string sha256(std::string_view bytes);  // 64 lower-case hexadecimal digits

}  // namespace rotary_torch
