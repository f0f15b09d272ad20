// SHA-256 (FIPS 180-4), for the texts that are fetched and that runs remember.
#pragma once

#include <string>
#include <string_view>

namespace rotary_torch {

std::string sha256(std::string_view bytes);  // 64 lower-case hexadecimal digits

}  // namespace rotary_torch
