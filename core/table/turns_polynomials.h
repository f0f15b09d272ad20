// Shared by the exact kernels of core/cpu and gpu: the polynomials of a remainder, and the test for a double that is
// too near a rounding boundary of f32. angles.inc lists the errors.
#pragma once

#include <cstdint>

#include "runtime/device_code.h"

namespace rotary::detail {

// For t in units of 2^-66 turns. By core/table/sollya/turns_polynomials.sollya; relative error 2^-54.5 and 2^-61.
struct TurnsPolynomials {
  double sine[7] = {0x1.921fb54442d18p2, -0x1.4abbce625be09p5, 0x1.466bc67754fffp6, -0x1.32d2ccdfe9421p6,
                    0x1.50782d5f14122p5, -0x1.e2fe76fd59c07p3, 0x1.e357ef4b37d12p1};
  double cosine[8] = {1,
                      -0x1.3bd3cc9be45dep4,
                      0x1.03c1f081b5a65p6,
                      -0x1.55d3c7e3c2d7cp6,
                      0x1.e1f5067b05afp5,
                      -0x1.a6d1e6b56226fp4,
                      0x1.f9c840fa538f9p2,
                      -0x1.b14b6b168a6c1p0};
  ROTARY_DEVICE constexpr TurnsPolynomials() {
    double power = 1;  // exact
    for (int k = 0; k < 8; ++k, power *= 0x1p-132) {
      cosine[k] *= power;
      if (k < 7) sine[k] *= power * 0x1p-66;
    }
  }
};

// Ziv's test: x lies within 2^-49 of the midpoint of two floats if the 29 bits that f32 lacks are within 16 of a half.
inline constexpr std::uint32_t half_and_distance = (1u << 28) + 16, beyond_distance = (1u << 29) - 32;

}  // namespace rotary::detail
