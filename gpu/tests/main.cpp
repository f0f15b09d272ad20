// The main of tests that run on a GPU: exit 77, with the reason, where there is none.
#include <gtest/gtest.h>

#include <cstdio>

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
  std::printf("on %s\n", rotary::gpu::device_name().c_str());
  return RUN_ALL_TESTS();
}
