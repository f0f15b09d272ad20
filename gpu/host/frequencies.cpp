// A model's frequencies in the device's memory: one block, one copy.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "jobs.h"
#include "memory.h"
#include "rotary/device.cuh"
#include "runtime/float_state.h"
#include "table/amplitude.h"
#include "table/table_checks.h"
#include "table/turns.h"

namespace rotary::gpu {
namespace {

// Packs arrays in the host's memory in the layout of the device's.
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

// Appends the logarithm of each pair's zeta to the terms: [2][pairs], its two parts.
void add_zetas(const rotary::Frequencies& f, std::vector<double>& terms) {
  const std::size_t pairs = static_cast<std::size_t>(f.head_rows) * static_cast<std::size_t>(f.pairs()),
                    at = terms.size();
  terms.resize(at + 2 * pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    const rotary::detail::High log = log_zeta(static_cast<int>(i) % f.pairs(), f.pairs());
    terms[at + i] = log.hi;
    terms[at + pairs + i] = log.lo;
  }
}

template <class T>
const T* at(const void* memory, std::size_t offset) noexcept {
  return reinterpret_cast<const T*>(static_cast<const std::byte*>(memory) + offset);
}

}  // namespace

struct Frequencies::State {
  FrequencyArrays arrays;
  rotary::Frequencies host;
  Allocation memory;
  int axes = 1;
};

Frequencies::Frequencies(const rotary::Frequencies& f, Stream stream) : state_(std::make_unique<State>()) {
  const FloatState ours;
  FrequencyArrays& arrays = state_->arrays;
  arrays.pairs = f.head_rows * checked_pairs(f);
  const auto pairs = static_cast<std::size_t>(arrays.pairs);
  state_->axes = f.axes();
  rotary::Frequencies& host = state_->host = f;
  std::vector<double> inv_freq = f.inv_freq;
  if (is_sum(f)) {
    check_sum(f, Angles::exact);
    fill_terms(f, f.axes(), arrays.pairs, inv_freq);
    arrays.phase = !f.phase.empty();
    arrays.terms = f.axes() + (arrays.phase ? 1 : 0);
    if (f.xpos.scale > 0) add_zetas(f, inv_freq);
  } else if (f.inv_freq_float32.empty()) {
    prepare_float32(f, host.inv_freq_float32);
    host.inv_freq_float32.resize(pairs);
  }
  std::vector<std::uint64_t> turns(pairs), limbs(limbs_per_pair * pairs);
  for (std::size_t i = 0; i < pairs && arrays.terms == 0; ++i) {
    std::uint64_t limb[limbs_per_pair];
    turns[i] = device::turns_of(f.inv_freq[i]);
    limbs_of(f.inv_freq[i], limb);
    for (std::size_t k = 0; k < limbs_per_pair; ++k) limbs[k * pairs + i] = limb[k];
  }

  std::vector<std::uint8_t> axis;
  for (int h = 0; h < f.head_rows; ++h) axis.insert(axis.end(), f.axis.begin(), f.axis.end());
  Packer packer;
  const std::size_t turns_at = packer.add(turns), limbs_at = packer.add(limbs), double_at = packer.add(inv_freq);
  const std::size_t float_at = packer.add(host.inv_freq_float32), axis_at = packer.add(axis);
  state_->memory = allocate(packer.bytes().size(), "frequencies");
  const void* memory = state_->memory.get();
  copy_in(state_->memory.get(), packer.bytes().data(), packer.bytes().size(), "frequencies", stream);
  check_cuda(cudaStreamSynchronize(stream), "frequencies");

  arrays.clockwise = f.clockwise;
  arrays.decidable = decidable(f.attention_factor);
  arrays.attention_factor = f.attention_factor;
  arrays.factor_float32 = static_cast<float>(f.attention_factor);
  arrays.turns = at<std::uint64_t>(memory, turns_at);
  arrays.limbs = at<std::uint64_t>(memory, limbs_at);
  arrays.inv_freq = at<double>(memory, double_at);
  arrays.inv_freq_float32 = at<float>(memory, float_at);
  arrays.axis = f.axis.empty() ? nullptr : at<std::uint8_t>(memory, axis_at);
}

Frequencies::Frequencies(Frequencies&&) noexcept = default;
Frequencies& Frequencies::operator=(Frequencies&& other) noexcept {
  Frequencies moved(std::move(other));
  state_.swap(moved.state_);
  return *this;
}
Frequencies::~Frequencies() = default;

Pairing Frequencies::pairing() const noexcept { return host().pairing; }
int Frequencies::pairs() const noexcept { return host().pairs(); }
int Frequencies::head_rows() const noexcept { return host().head_rows; }
int Frequencies::axes() const noexcept { return state_ == nullptr ? 1 : state_->axes; }
double Frequencies::attention_factor() const noexcept { return host().attention_factor; }
const std::uint64_t* Frequencies::turns() const noexcept { return rotary::detail::DeviceAccess::arrays(*this).turns; }

const rotary::Frequencies& Frequencies::host() const noexcept {
  static const rotary::Frequencies none;
  return state_ == nullptr ? none : state_->host;
}

}  // namespace rotary::gpu

namespace rotary::detail {

const gpu::FrequencyArrays& DeviceAccess::arrays(const gpu::Frequencies& f) noexcept {
  static constexpr gpu::FrequencyArrays none;
  return f.state_ == nullptr ? none : f.state_->arrays;
}

}  // namespace rotary::detail
