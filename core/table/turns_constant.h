// The limbs: core/table/sollya/turns_constant.py. Most significant limb first.
#pragma once

#include <cstdint>

#include "runtime/device_code.h"

namespace rotary::detail {

// 18 limbs of zeros, then the fraction bits of 1/(2 pi).
inline constexpr int inverse_two_pi_point = 1152;
ROTARY_DEVICE inline const std::uint64_t* inverse_two_pi() noexcept {
  static constexpr std::uint64_t limbs[68] = {
      0x0000000000000000u, 0x0000000000000000u, 0x0000000000000000u, 0x0000000000000000u, 0x0000000000000000u,
      0x0000000000000000u, 0x0000000000000000u, 0x0000000000000000u, 0x0000000000000000u, 0x0000000000000000u,
      0x0000000000000000u, 0x0000000000000000u, 0x0000000000000000u, 0x0000000000000000u, 0x0000000000000000u,
      0x0000000000000000u, 0x0000000000000000u, 0x0000000000000000u, 0x28be60db9391054au, 0x7f09d5f47d4d3770u,
      0x36d8a5664f10e410u, 0x7f9458eaf7aef158u, 0x6dc91b8e909374b8u, 0x01924bba82746487u, 0x3f877ac72c4a69cfu,
      0xba208d7d4baed121u, 0x3a671c09ad17df90u, 0x4e64758e60d4ce7du, 0x272117e2ef7e4a0eu, 0xc7fe25fff7816603u,
      0xfbcbc462d6829b47u, 0xdb4d9fb3c9f2c26du, 0xd3d18fd9a797fa8bu, 0x5d49eeb1faf97c5eu, 0xcf41ce7de294a4bau,
      0x9afed7ec47e35742u, 0x1580cc11bf1edaeau, 0xfc33ef0826bd0d87u, 0x6a78e45857b986c2u, 0x19666157c5281a10u,
      0x237ff620135cc9ccu, 0x41818555b29cea32u, 0x58389ef0231ad1f1u, 0x0670d9f3773a024au, 0xa0d6711da2e58729u,
      0xb76bd13455c6414fu, 0xa97fc1c14fdf8cfau, 0x0cb0b793e60c9f6eu, 0xf0cf49bbdac797beu, 0x27ce87cd72bc9fc7u,
      0x61fc48641f1f091au, 0xbe9bb55dcb4c10ceu, 0xc571852d674670f0u, 0xb12b50534b174003u, 0x119f618b5c78e6b1u,
      0xa6c0188cdf34ad25u, 0xe9ed35554dfd8fb5u, 0xc60428ff1d934aa7u, 0x592af5dc3e1f18d5u, 0xec1eb9c545d59270u,
      0x36758ece2129f2c8u, 0xc91de2b588d516aeu, 0x47c006c2bc77f386u, 0x7fcc67da87999855u, 0xe651feeb361fdfadu,
      0xd948a27a0c982ff9u, 0xb3713bc24d9b350fu, 0xd775f785b78ed624u,
  };
  return limbs;
}

// The fraction bits of pi/4.
ROTARY_DEVICE inline const std::uint64_t* quarter_pi() noexcept {
  static constexpr std::uint64_t limbs[16] = {
      0xc90fdaa22168c234u, 0xc4c6628b80dc1cd1u, 0x29024e088a67cc74u, 0x020bbea63b139b22u,
      0x514a08798e3404ddu, 0xef9519b3cd3a431bu, 0x302b0a6df25f1437u, 0x4fe1356d6d51c245u,
      0xe485b576625e7ec6u, 0xf44c42e9a637ed6bu, 0x0bff5cb6f406b7edu, 0xee386bfb5a899fa5u,
      0xae9f24117c4b1fe6u, 0x49286651ece45b3du, 0xc2007cb8a163bf05u, 0x98da48361c55d39au,
  };
  return limbs;
}

}  // namespace rotary::detail
