// Frequencies and positions for the tests of tables on a device, and of the rotation without one.
#pragma once

#include <limits>

#include "core/tests/support/tables.h"
#include "device_heads.h"

namespace rotary::tests {

inline constexpr std::int32_t least32 = std::numeric_limits<std::int32_t>::min();
inline constexpr std::int32_t most32 = std::numeric_limits<std::int32_t>::max();

// ---- frequencies as models have them, and worse ----

struct Named {
  std::string name;
  Frequencies f;
};

inline Frequencies geometric(int pairs, double from, double ratio, int axes = 1) {
  Frequencies f;
  for (int i = 0; i < pairs; ++i) {
    f.inv_freq.push_back(i % 7 == 6 ? 0.0 : from);
    from *= ratio;
    if (axes > 1) f.axis.push_back(static_cast<std::uint8_t>(i % axes));
  }
  return f;
}

inline std::vector<Named> frequencies_of_all_kinds() {
  const auto scaled = [](Frequencies f, double factor, bool clockwise = false) {
    f.attention_factor = factor;
    f.clockwise = clockwise;
    return f;
  };
  std::vector<Named> all;
  all.push_back({"a model's", frequencies(Rope{.head_dim = 128, .base = 500000, .pairing = Pairing::half})});
  Rope yarn{.head_dim = 64, .pairing = Pairing::half};
  yarn.scaling = Yarn{.factor = 40, .trained_length = 4096};
  all.push_back({"yarn", frequencies(yarn, 100000)});
  all.push_back({"one pair", geometric(1, 1.0, 1.0)});
  all.push_back({"clockwise", scaled(geometric(37, 3.0, 0.8), 1.0, true)});
  Frequencies backwards = geometric(20, -2.0, -0.7);
  all.push_back({"backwards, with a factor", scaled(backwards, 1.19023807)});
  all.push_back({"fast", geometric(33, 1e12, 0.25)});
  all.push_back({"slow", geometric(16, 1e-12, 1e-9)});
  all.push_back({"factor below 0", scaled(geometric(9, 1.0, 0.5), -2.5)});
  all.push_back({"factor 0", scaled(geometric(9, 1.0, 0.5), 0.0)});
  all.push_back({"a factor that nothing is decided with", scaled(geometric(9, 1.0, 0.5), 1e-30)});
  Frequencies turns = geometric(8, 1.0, 1.0);
  turns.inv_freq = {
      3.141592653589793, 1.5707963267948966, 0.7853981633974483, 6.283185307179586, 1.0, 2.0, 0x1p-40, 5.0};
  all.push_back({"nearly whole turns", turns});
  return all;
}

template <class P>
gpu::Positions on(const Device& device, std::int64_t tokens, int axes = 1, int batch = 1) {
  return gpu::Positions(device.as<const P>(), tokens, axes, batch);
}

}  // namespace rotary::tests
