// A model's frequencies in the device's memory: one block, one copy.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "memory.h"
#include "rotary/device.cuh"
#include "rotate/refuse.h"
#include "runtime/float_state.h"
#include "table/table_checks.h"
#include "table/turns.h"

namespace rotary::gpu {
namespace {

// Arrays one behind the other, in the host's memory as they will lie in the device's.
class Packer {
 public:
  template <class T>
  std::size_t add(const std::vector<T>& values) {
    const std::size_t at = (bytes_.size() + 15) / 16 * 16;
    bytes_.resize(at + values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size() * sizeof(T));
    return at;
  }
  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

template <class T>
const T* at(const void* memory, std::size_t offset) noexcept {
  return reinterpret_cast<const T*>(static_cast<const std::byte*>(memory) + offset);
}

}  // namespace

Frequencies::Frequencies(const rotary::Frequencies& f, Pairing pairing, Stream stream)
    : arrays_(std::make_unique<FrequencyArrays>()), pairing_(pairing), pairs_(checked_pairs(f)), axes_(f.axes()) {
  const FloatState ours;
  if (pairing > Pairing::interleaved_to_half) {
    fail("PAIRING", "table",
         "pairing must be half, interleaved or interleaved_to_half but got value " + text(static_cast<int>(pairing)));
  }
  const auto pairs = static_cast<std::size_t>(pairs_);
  host_ = f;
  if (f.inv_freq_float32.empty()) {
    prepare_float32(f, host_.inv_freq_float32);
    host_.inv_freq_float32.resize(pairs);
  }
  std::vector<std::uint64_t> turns(pairs), limbs(limbs_per_pair * pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    std::uint64_t limb[limbs_per_pair];
    turns[i] = device::turns_of(f.inv_freq[i]);
    limbs_of(f.inv_freq[i], limb);
    for (std::size_t k = 0; k < limbs_per_pair; ++k) limbs[k * pairs + i] = limb[k];
  }

  Packer packer;
  const std::size_t turns_at = packer.add(turns), limbs_at = packer.add(limbs), double_at = packer.add(f.inv_freq);
  const std::size_t float_at = packer.add(host_.inv_freq_float32), axis_at = packer.add(f.axis);
  Block block = allocate(packer.bytes().size(), "frequencies");
  copy_in(block.get(), packer.bytes().data(), packer.bytes().size(), "frequencies", stream);
  check_cuda(cudaStreamSynchronize(stream), "frequencies");
  memory_ = block.release();

  arrays_->pairs = pairs_;
  arrays_->clockwise = f.clockwise;
  arrays_->decidable = decidable(f.attention_factor);
  arrays_->attention_factor = f.attention_factor;
  arrays_->factor_float32 = static_cast<float>(f.attention_factor);
  arrays_->turns = at<std::uint64_t>(memory_, turns_at);
  arrays_->limbs = at<std::uint64_t>(memory_, limbs_at);
  arrays_->inv_freq = at<double>(memory_, double_at);
  arrays_->inv_freq_float32 = at<float>(memory_, float_at);
  arrays_->axis = f.axis.empty() ? nullptr : at<std::uint8_t>(memory_, axis_at);
}

Frequencies::Frequencies(Frequencies&& other) noexcept { swap(other); }

Frequencies& Frequencies::operator=(Frequencies&& other) noexcept {
  Frequencies taken(std::move(other));
  swap(taken);
  return *this;
}

void Frequencies::swap(Frequencies& other) noexcept {
  std::swap(arrays_, other.arrays_);
  std::swap(host_, other.host_);
  std::swap(memory_, other.memory_);
  std::swap(pairing_, other.pairing_);
  std::swap(pairs_, other.pairs_);
  std::swap(axes_, other.axes_);
}

Frequencies::~Frequencies() { Block(memory_).reset(); }

const FrequencyArrays& Frequencies::arrays() const noexcept {
  static constexpr FrequencyArrays none;
  return arrays_ == nullptr ? none : *arrays_;
}

const std::uint64_t* Frequencies::turns() const noexcept { return arrays().turns; }

}  // namespace rotary::gpu
