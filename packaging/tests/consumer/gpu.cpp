// The same for rotary::gpu, without a header of CUDA. Where no device is, the error is the output.
#include <rotary/gpu.h>
#include <rotary/rotary.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  const rotary::Rope rope{.head_dim = 128, .pairing = rotary::Pairing::half};
  const std::vector<std::int64_t> positions{0, 3, 131071};
  const rotary::Table table(rotary::frequencies(rope), positions);
  std::printf("built %d, devices %s, ", rotary::gpu::built() ? 1 : 0, rotary::gpu::devices() > 0 ? "some" : "none");
  try {
    const rotary::gpu::Frequencies frequencies(rotary::frequencies(rope));
    const rotary::Table copy = rotary::gpu::Table(frequencies, positions).host();
    std::puts(std::ranges::equal(copy.cos(), table.cos()) && std::ranges::equal(copy.sin(), table.sin())
                  ? "the CPU's rows"
                  : "other rows");
  } catch (const rotary::Error& error) {
    std::printf("%s: %s\n", rotary::name(error.code()), error.what());
  }
  return 0;
}
