// librotary_peers.so: rotary and the plain loop for peers/native.py, through ctypes. Repetitions are timed here, since
// a call from Python costs more than a token's work. With ROTARY_PEERS_CUDA librotary_peers_cuda.so: rotary on a CUDA
// device, on the stream that it is given, where Python has the clock.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#ifdef ROTARY_PEERS_CUDA
#include "rotary/gpu.h"
#else
#include "plain_loop.h"
#include "rotary/rotary.h"
#include "rotary/targets.h"
#endif

namespace {

// native.py's class Request mirrors it, field by field. On a device q to k_out and device_positions are its pointers.
struct Request {
  const void* q;
  const void* k;
  void* q_out;  // in place: q_out == q, k_out == k
  void* k_out;
  const std::int64_t* positions;
  const std::int32_t* device_positions;  // null: by a table
  const float* cos;                      // [tokens, head_dim / 2], for the plain loop
  const float* sin;
  double base;
  std::int64_t tokens, heads, kv_heads;
  std::int32_t head_dim;
  std::int32_t dtype;        // the order of rotary::DType
  std::int32_t interleaved;  // 0 or 1
  std::int32_t threads;
};

std::string& last_error() {
  thread_local std::string sentence;
  return sentence;
}

// What call returns, or -1 with the sentence in peers_error().
template <class Call>
double guarded(Call&& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    last_error() = error.what();
    return -1;
  }
}

template <class Call>
double seconds(std::int64_t repetitions, Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < repetitions; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

rotary::Frequencies frequencies_of(int head_dim, double base, bool interleaved) {
  rotary::Rope rope;
  rope.head_dim = head_dim;
  rope.base = base;
  rope.pairing = interleaved ? rotary::Pairing::interleaved : rotary::Pairing::half;
  return rotary::frequencies(rope);
}

#ifdef ROTARY_PEERS_CUDA
namespace api = rotary::gpu;

struct Angles {
  Angles(const Request& r, rotary::gpu::Stream stream)
      : frequencies(frequencies_of(r.head_dim, r.base, r.interleaved != 0), stream) {
    if (r.device_positions != nullptr) {
      by = std::make_unique<api::Rotation>(frequencies, api::Positions(r.device_positions, r.tokens));
    } else {
      const rotary::Positions positions(std::span(r.positions, static_cast<std::size_t>(r.tokens)));
      table = api::Table(frequencies, positions, {}, stream);
      by = std::make_unique<api::Rotation>(table);
    }
  }
  const api::Rotation& get() const { return *by; }
  api::RotateOptions options(rotary::gpu::Stream stream) const { return {rotary::Direction::forward, stream}; }

  api::Frequencies frequencies;
  api::Table table;
  std::unique_ptr<api::Rotation> by;
};
using Stream = rotary::gpu::Stream;
#else
namespace api = rotary;
using Stream = void*;  // null

struct Angles {
  Angles(const Request& r, Stream)
      : table(frequencies_of(r.head_dim, r.base, r.interleaved != 0),
              rotary::Positions(std::span(r.positions, static_cast<std::size_t>(r.tokens)))) {
    if (r.threads > 1) pool = std::make_unique<rotary::ThreadPool>(static_cast<unsigned>(r.threads));
  }
  const rotary::Table& get() const { return table; }
  api::RotateOptions options(Stream) const {
    return {rotary::Direction::forward, pool ? static_cast<const rotary::Executor&>(*pool) : rotary::serial()};
  }

  rotary::Table table;
  std::unique_ptr<rotary::ThreadPool> pool;
};
#endif

// Everything that a caller makes once, before the first layer of a step.
class Prepared {
 public:
  Prepared(const Request& r, Stream stream)
      : angles_(r, stream),
        q_out_(r.q_out, static_cast<rotary::DType>(r.dtype), rotary::bthd(1, r.tokens, r.heads, r.head_dim)),
        k_out_(r.k_out, q_out_.dtype, rotary::bthd(1, r.tokens, r.kv_heads, r.head_dim)),
        q_(r.q, q_out_.dtype, q_out_.layout),
        k_(r.k, k_out_.dtype, k_out_.layout) {}

  void rotate(bool in_one_call, Stream stream) const {
    if (in_one_call) return api::rotate_qk({q_, q_out_}, {k_, k_out_}, angles_.get(), angles_.options(stream));
    api::rotate(q_, q_out_, angles_.get(), angles_.options(stream));
    api::rotate(k_, k_out_, angles_.get(), angles_.options(stream));
  }

 private:
  Angles angles_;
  rotary::Heads q_out_, k_out_;
  rotary::ConstHeads q_, k_;
};

}  // namespace

extern "C" {

const char* peers_error() { return last_error().c_str(); }

// The instruction set, or the device.
const char* peers_target() {
  thread_local std::string name;
#ifdef ROTARY_PEERS_CUDA
  guarded([] { return name = rotary::gpu::device_name(), 0; });
#else
  name = rotary::chosen_target();
#endif
  return name.c_str();
}

void* peers_prepare(const Request* request, void* stream) {
  Prepared* prepared = nullptr;
  guarded([&] { return prepared = new Prepared(*request, static_cast<Stream>(stream)), 0; });
  return prepared;
}
void peers_release(void* prepared) { delete static_cast<Prepared*>(prepared); }

// Seconds, on a device of enqueueing; -1: peers_error().
double peers_rotate(const void* prepared, std::int64_t repetitions, bool in_one_call, void* stream) {
  return guarded([&] {
    return seconds(repetitions,
                   [&] { static_cast<const Prepared*>(prepared)->rotate(in_one_call, static_cast<Stream>(stream)); });
  });
}

#ifndef ROTARY_PEERS_CUDA
double peers_plain(const Request* r, std::int64_t repetitions) {
  const auto job = [&](const void* in, void* out, std::int64_t heads) {
    return peers::PlainJob{in, out, r->cos, r->sin, r->tokens, heads, r->head_dim, r->interleaved != 0, r->threads};
  };
  const auto storage = static_cast<peers::Storage>(r->dtype);
  bool known = true;
  const double time = seconds(repetitions, [&] {
    known = peers::plain_rotate(storage, job(r->q, r->q_out, r->heads)) &&
            peers::plain_rotate(storage, job(r->k, r->k_out, r->kv_heads));
  });
  if (!known) last_error() = "this compiler has no type for f16";
  return known ? time : -1;
}

// The exact table of positions 0, 1, ..., made again and again in the same storage; cos and sin get its rows.
double peers_table(std::int64_t tokens, std::int32_t head_dim, double base, std::int64_t repetitions, float* cos,
                   float* sin) {
  return guarded([&] {
    const auto frequencies = frequencies_of(head_dim, base, false);
    const rotary::Positions positions = rotary::positions(0, tokens);
    static rotary::Table table(frequencies, positions);
    const double time = seconds(repetitions, [&] { table.assign(frequencies, positions); });
    std::copy(table.cos().begin(), table.cos().end(), cos);
    std::copy(table.sin().begin(), table.sin().end(), sin);
    return time;
  });
}

// Times a C function of another library: ggml's compute.
double peers_repeat(int (*function)(void*, void*), void* first, void* second, std::int64_t repetitions) {
  return seconds(repetitions, [&] { function(first, second); });
}
#endif

}  // extern "C"
