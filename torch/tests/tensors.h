// For the tests of rotary_torch: a tiny model, the distance of two tensors, all the tensors of a file, sentences of
// errors, a folder.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "files/tests/file_helpers.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/decoder.h"

namespace rotary_torch {

using Tensors = std::map<std::string, at::Tensor>;

inline rotary::ModelRope tiny_rope(int head_dim, int rotary_dim, rotary::Pairing pairing = rotary::Pairing::half) {
  rotary::ModelRope rope;
  rope.rope = {.head_dim = head_dim, .rotary_dim = rotary_dim, .pairing = pairing};
  return rope;
}

// Two layers of width 32, four heads.
inline DecoderConfig tiny(PositionEncoding position = PositionEncoding::rope, std::int64_t context = 64) {
  DecoderConfig c;
  c.vocabulary = 29, c.width = 32, c.layers = 2, c.heads = 4, c.feed_forward = 48, c.context = context;
  c.position = position;
  if (position == PositionEncoding::rope) c.rope = tiny_rope(8, 6);
  return c;
}

inline at::Tensor some_ids(std::int64_t batch, std::int64_t tokens, std::uint64_t seed = 3) {
  at::manual_seed(seed);
  return at::randint(29, {batch, tokens}, at::kLong);
}

// The largest difference, over max(1, the largest value); infinite where the shapes differ or a difference is NaN.
inline double difference(const at::Tensor& got, const at::Tensor& expected) {
  if (got.sizes() != expected.sizes()) return HUGE_VAL;
  const double distance = (got.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>();
  return std::isnan(distance) ? HUGE_VAL : distance / std::max(1.0, expected.abs().max().item<double>());
}

inline Tensors read_all(const std::filesystem::path& path) {
  const rotary::SafetensorsFile file(path);
  Tensors tensors;
  for (const rotary::TensorInfo& info : file.tensors()) tensors[info.name] = torch_tensor(file.read(info.name));
  return tensors;
}

inline void write_all(const std::filesystem::path& path, const Tensors& tensors) {
  write_tensors(path, {tensors.begin(), tensors.end()});
}

// "CODE: sentence" of a rotary::Error, the sentence of a c10::Error, "no error".
template <class Function>
std::string sentence_of(Function call) {
  try {
    call();
  } catch (const rotary::Error& error) {
    return std::string(rotary::name(error.code())) + ": " + error.what();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

// A fixture for tests that write files, on one thread.
class Scratch : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    rotary::test::write_text(path(name), text);
    return path(name);
  }

 private:
  rotary::test::ScratchFolder folder_;
};

}  // namespace rotary_torch
