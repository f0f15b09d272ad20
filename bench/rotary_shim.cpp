// librotary_peers.so: rotary and the plain loop for peers/native.py, through ctypes. Repetitions are timed here, since
// a call from Python costs more than a token's work. With ROTARY_PEERS_CUDA librotary_peers_cuda.so: rotary on a CUDA
// device, on the stream that it is given, where Python has the clock.
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#ifdef ROTARY_PEERS_CUDA
#include "kernels/kernels.h"
#include "rotary/gpu.h"
namespace api = rotary::gpu;
using Stream = api::Stream;
#else
#include "bench/plain_loop.h"
#include "rotary/rotary.h"
#include "rotary/targets.h"
namespace api = rotary;
using Stream = void*;  // null
#endif

namespace {

constexpr std::int64_t q_heads = 32, kv_heads = 8;
constexpr int head_dim = 128;

// native.py's class Request mirrors it, field by field. On a device q to k_out are its pointers.
struct Request {
  const void* q;
  const void* k;
  void* q_out;  // in place: q_out == q, k_out == k
  void* k_out;
  const std::int64_t* positions;
  double base;
  std::int64_t tokens;
  std::int32_t dtype;        // the order of rotary::DType
  std::int32_t interleaved;  // 0 or 1
  std::int32_t variant;      // 0: rotary; 1: the plain loop, on a device rotary with overlapped launches
};

std::string& last_error() {
  thread_local std::string sentence;
  return sentence;
}

// The result of the call, or -1 with the sentence in peers_error().
template <class Function>
double guarded(Function&& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    last_error() = error.what();
    return -1;
  }
}

template <class Function>
double seconds(std::int64_t repetitions, Function&& call) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < repetitions; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Rotates q and k.
using Prepared = std::function<void(Stream)>;

// Makes all that a caller makes once, before the first layer of a step.
Prepared prepared(const Request& r, Stream stream) {
  const rotary::Pairing pairing = r.interleaved != 0 ? rotary::Pairing::interleaved : rotary::Pairing::half;
  const auto turns = rotary::frequencies({.head_dim = head_dim, .base = r.base, .pairing = pairing});
  const std::span positions(r.positions, static_cast<std::size_t>(r.tokens));
  const auto dtype = static_cast<rotary::DType>(r.dtype);
#ifdef ROTARY_PEERS_CUDA
  const auto frequencies = std::make_shared<api::Frequencies>(turns, stream);
  const auto table = std::make_shared<api::Table>(*frequencies, positions, api::TableOptions{}, stream);
  const auto by = std::make_shared<api::Rotation>(*table);
  const auto how = [frequencies, table, overlapped = r.variant != 0](Stream on) {
    api::overlapped_launches() = overlapped;
    return api::RotateOptions(rotary::Direction::forward, on);
  };
#else
  static_cast<void>(stream);
  const auto by = std::make_shared<rotary::Table>(turns, positions);
  const auto how = [](Stream) { return api::RotateOptions(); };
  if (r.variant != 0) {
    const auto rotate = [=](const void* in, void* out, std::int64_t heads) {
      using namespace rotary::cli::bench;
      const PlainJob job{in, out, by->cos().data(), by->sin().data(), heads, head_dim, r.interleaved != 0};
      if (!rotate_plainly("", dtype, job, 0, r.tokens)) throw std::runtime_error("this compiler has no type for f16");
    };
    return [=](Stream) { rotate(r.q, r.q_out, q_heads), rotate(r.k, r.k_out, kv_heads); };
  }
#endif
  const rotary::Layout q_layout = rotary::bthd(1, r.tokens, q_heads, head_dim);
  const rotary::Layout k_layout = rotary::bthd(1, r.tokens, kv_heads, head_dim);
  const rotary::Heads q_out{r.q_out, dtype, q_layout}, k_out{r.k_out, dtype, k_layout};
  const rotary::ConstHeads q(r.q, dtype, q_layout), k(r.k, dtype, k_layout);
  return [=](Stream on) { api::rotate_qk({q, q_out}, {k, k_out}, *by, how(on)); };
}

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
  Prepared* rotation = nullptr;
  guarded([&] { return rotation = new Prepared(prepared(*request, static_cast<Stream>(stream))), 0; });
  return rotation;
}
void peers_release(void* rotation) { delete static_cast<Prepared*>(rotation); }

// Seconds, on a device of enqueueing; -1: peers_error().
double peers_rotate(const void* rotation, std::int64_t repetitions, void* stream) {
  const Prepared& rotate = *static_cast<const Prepared*>(rotation);
  return guarded([&] { return seconds(repetitions, [&] { rotate(static_cast<Stream>(stream)); }); });
}

#ifndef ROTARY_PEERS_CUDA
// Times a C function of another library: ggml's compute.
double peers_repeat(int (*function)(void*, void*), void* first, void* second, std::int64_t repetitions) {
  return seconds(repetitions, [&] { function(first, second); });
}
#endif

}  // extern "C"
