// The main of tests that run on a GPU: exit 77, with the reason, where there is none. With ROTARY_OVERLAPPED=1 in the
// environment launches overlap (kernels.h).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "kernels/kernels.h"
#include "rotary/gpu.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (rotary::gpu::devices() == 0) {
    try {
      rotary::gpu::device_name();
    } catch (const rotary::Error& error) {
      std::printf("skipped: %s\n", error.what());
    }
    return 77;
  }
  const char* overlapped = std::getenv("ROTARY_OVERLAPPED");
  rotary::gpu::overlapped_launches() = overlapped != nullptr && overlapped == std::string_view("1");
  std::printf("on %s%s\n", rotary::gpu::device_name().c_str(),
              rotary::gpu::overlapped_launches() ? ", overlapped launches" : "");
  return RUN_ALL_TESTS();
}
