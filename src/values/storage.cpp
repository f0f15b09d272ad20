// The public conversions of the 16-bit storage types.
#include "runtime/arithmetic.h"

#include "storage.h"

namespace rotary {

using namespace detail;

f16 to_f16(float x) noexcept { return encode_f16(x); }
bf16 to_bf16(float x) noexcept { return encode_bf16(x); }
float to_float(f16 x) noexcept { return decode(x); }
float to_float(bf16 x) noexcept { return decode(x); }

}  // namespace rotary
