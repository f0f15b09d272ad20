// librotary_peers_cuda.so: rotary on a CUDA device for peers/gpu_peers.py, through ctypes, on the stream that it is
// given.
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>

#include "rotary/gpu.h"

namespace {

// What gpu_peers.py's class Work mirrors, field by field. Pointers are the device's, but for positions.
struct Work {
  const void* q;
  const void* k;
  void* q_out;  // in place: q_out == q, k_out == k
  void* k_out;
  const std::int64_t* positions;         // in the host's memory
  const std::int32_t* device_positions;  // null: by a table
  double base;
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int32_t head_dim;
  std::int32_t dtype;  // the order of rotary::DType
  std::int32_t interleaved;
};

std::string& last_error() {
  thread_local std::string sentence;
  return sentence;
}

// Everything that a caller makes once, before the first layer of a step.
class Prepared {
 public:
  Prepared(const Work& work, rotary::gpu::Stream stream)
      : frequencies_(frequencies_of(work), stream),
        q_(view(work.q_out, work.heads, work)),
        k_(view(work.k_out, work.kv_heads, work)),
        q_in_(work.q, q_.dtype, q_.layout),
        k_in_(work.k, k_.dtype, k_.layout),
        in_place_(work.q == work.q_out) {
    if (work.device_positions != nullptr) {
      by_ = std::make_unique<rotary::gpu::Rotation>(frequencies_,
                                                    rotary::gpu::Positions(work.device_positions, work.tokens));
      return;
    }
    const rotary::Positions positions(std::span(work.positions, static_cast<std::size_t>(work.tokens)));
    table_ = rotary::gpu::Table(frequencies_, positions, {}, stream);
    by_ = std::make_unique<rotary::gpu::Rotation>(table_);
  }

  void fused(rotary::gpu::Stream stream) const {
    if (in_place_) {
      rotary::gpu::rotate_qk(q_, k_, *by_, stream);
    } else {
      rotary::gpu::rotate_qk({q_in_, q_}, {k_in_, k_}, *by_, stream);
    }
  }

  void two_calls(rotary::gpu::Stream stream) const {
    if (in_place_) {
      rotary::gpu::rotate(q_, *by_, stream);
      rotary::gpu::rotate(k_, *by_, stream);
    } else {
      rotary::gpu::rotate(q_in_, q_, *by_, stream);
      rotary::gpu::rotate(k_in_, k_, *by_, stream);
    }
  }

 private:
  static rotary::Pairing pairing_of(const Work& work) {
    return work.interleaved != 0 ? rotary::Pairing::interleaved : rotary::Pairing::half;
  }
  static rotary::Frequencies frequencies_of(const Work& work) {
    rotary::Rope rope;
    rope.head_dim = work.head_dim;
    rope.base = work.base;
    rope.pairing = pairing_of(work);
    return rotary::frequencies(rope);
  }
  static rotary::Heads view(void* data, std::int64_t heads, const Work& work) {
    return {data, static_cast<rotary::DType>(work.dtype), rotary::bthd(1, work.tokens, heads, work.head_dim)};
  }

  rotary::gpu::Frequencies frequencies_;
  rotary::gpu::Table table_;
  rotary::Heads q_, k_;
  rotary::ConstHeads q_in_, k_in_;
  bool in_place_;
  std::unique_ptr<rotary::gpu::Rotation> by_;
};

// 0, or -1 with the sentence in peers_cuda_error().
template <class Call>
int guarded(Call&& call) {
  try {
    call();
    return 0;
  } catch (const std::exception& error) {
    last_error() = error.what();
    return -1;
  }
}

rotary::gpu::Stream stream_of(void* stream) { return static_cast<rotary::gpu::Stream>(stream); }

}  // namespace

extern "C" {

const char* peers_cuda_error() { return last_error().c_str(); }

const char* peers_cuda_device() {
  thread_local std::string name;
  return guarded([] { name = rotary::gpu::device_name(); }) == 0 ? name.c_str() : nullptr;
}

void* peers_cuda_prepare(const Work* work, void* stream) {
  Prepared* prepared = nullptr;
  guarded([&] { prepared = new Prepared(*work, stream_of(stream)); });
  return prepared;
}
void peers_cuda_release(void* prepared) { delete static_cast<Prepared*>(prepared); }

int peers_cuda_fused(const void* prepared, void* stream) {
  return guarded([&] { static_cast<const Prepared*>(prepared)->fused(stream_of(stream)); });
}
int peers_cuda_two_calls(const void* prepared, void* stream) {
  return guarded([&] { static_cast<const Prepared*>(prepared)->two_calls(stream_of(stream)); });
}

}  // extern "C"
