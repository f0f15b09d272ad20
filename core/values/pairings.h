// The meaning of a pairing for a kernel, and the check that a pairing is set.
#pragma once

#include "rotary/rotary.h"

namespace rotary::detail {

// Pair i is (2i, 2i + 1) of the block if interleaved, else (i, i + pairs).
struct Order {
  bool read_interleaved;
  bool write_interleaved;
};

constexpr Order order_of(Pairing pairing, Direction direction) noexcept {
  const bool backward = direction == Direction::backward;
  return {backward ? pairing == Pairing::interleaved : pairing != Pairing::half,
          backward ? pairing != Pairing::half : pairing == Pairing::interleaved};
}

constexpr bool is_set(Pairing pairing) noexcept {
  return pairing > Pairing::unset && pairing <= Pairing::interleaved_to_half;
}

// Throws PAIRING if it is unset or no enumerator.
ROTARY_API void check_pairing(const char* operation, Pairing);

}  // namespace rotary::detail
