// Runs a package that AOTInductor made of a rotary.RotaryEmbedding for heads of 64, and compares its bits:
// run_package PACKAGE VALUES [LIBRARY], driven by test_op_library.py. It links libtorch alone and loads LIBRARY before.
// VALUES holds float32: q [1, 4, tokens, 64], k [1, 2, tokens, 64] and, in the same shapes, the results of Python.
#include <ATen/ops/arange.h>
#include <ATen/ops/from_file.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>
#include <exception>
#include <filesystem>

int main(int argc, char** argv) try {
  if (argc > 3 && dlopen(argv[3], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  const auto numbers = static_cast<std::int64_t>(std::filesystem::file_size(argv[2]) / sizeof(float));
  const std::int64_t tokens = numbers / (2 * 6 * 64);
  const at::Tensor values = at::from_file(argv[2], false, numbers, at::kFloat).view({2, 6 * tokens, 64});
  const auto part = [&](std::int64_t which, std::int64_t head, std::int64_t heads) {
    return values[which].narrow(0, head * tokens, heads * tokens).view({1, heads, tokens, 64});
  };
  const auto positions = at::arange(70000, 70000 + tokens);
  const std::vector<at::Tensor> results =
      torch::inductor::AOTIModelPackageLoader(argv[1]).run({part(0, 0, 4), part(0, 4, 2), positions});
  const bool same = results.size() == 2 && results[0].equal(part(1, 0, 4)) && results[1].equal(part(1, 4, 2));
  if (!same) std::fprintf(stderr, "the results differ from Python's\n");
  return same ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
