// librotary_peers.so: rotary and the plain loop for peers/native.py, through ctypes. Repetitions are timed here, since
// a call from Python costs more than a token's work. With ROTARY_PEERS_CUDA librotary_peers_cuda.so: rotary on a CUDA
// device, on the stream that it is given, where Python has the clock.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#ifdef ROTARY_PEERS_CUDA
#include "rotary/gpu.h"
namespace api = rotary::gpu;
using Stream = api::Stream;
#else
#include "apps/rotary/bench/plain_loop.h"
#include "rotary/rotary.h"
#include "rotary/targets.h"
namespace api = rotary;
using Stream = void*;  // null
#endif

namespace {

// native.py's class Request mirrors it, field by field. On a device q to k_out are its pointers.
struct Request {
  const void* q;
  const void* k;
  void* q_out;  // in place: q_out == q, k_out == k
  void* k_out;
  const std::int64_t* positions;
  const float* cos;  // [tokens, head_dim / 2], for the plain loop
  const float* sin;
  double base;
  std::int64_t tokens, heads, kv_heads;
  std::int32_t head_dim;
  std::int32_t dtype;        // the order of rotary::DType
  std::int32_t interleaved;  // 0 or 1
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
  const rotary::Pairing pairing = interleaved ? rotary::Pairing::interleaved : rotary::Pairing::half;
  return rotary::frequencies({.head_dim = head_dim, .base = base, .pairing = pairing});
}

// Rotates q and k in one call.
using Prepared = std::function<void(Stream)>;

// Makes all that a caller makes once, before the first layer of a step.
Prepared prepared(const Request& r, Stream stream) {
  const rotary::Frequencies turns = frequencies_of(r.head_dim, r.base, r.interleaved != 0);
  const std::span positions(r.positions, static_cast<std::size_t>(r.tokens));
#ifdef ROTARY_PEERS_CUDA
  const auto frequencies = std::make_shared<api::Frequencies>(turns, stream);
  const auto table = std::make_shared<api::Table>(*frequencies, positions, api::TableOptions{}, stream);
  const auto by = std::make_shared<api::Rotation>(*table);
  const auto how = [frequencies, table](Stream on) { return api::RotateOptions(rotary::Direction::forward, on); };
#else
  static_cast<void>(stream);
  const auto by = std::make_shared<rotary::Table>(turns, positions);
  const auto how = [](Stream) { return api::RotateOptions(); };
#endif
  const auto dtype = static_cast<rotary::DType>(r.dtype);
  const rotary::Layout q_layout = rotary::bthd(1, r.tokens, r.heads, r.head_dim);
  const rotary::Layout k_layout = rotary::bthd(1, r.tokens, r.kv_heads, r.head_dim);
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
  Prepared* made = nullptr;
  guarded([&] { return made = new Prepared(prepared(*request, static_cast<Stream>(stream))), 0; });
  return made;
}
void peers_release(void* made) { delete static_cast<Prepared*>(made); }

// Seconds, on a device of enqueueing; -1: peers_error().
double peers_rotate(const void* made, std::int64_t repetitions, void* stream) {
  const Prepared& rotate = *static_cast<const Prepared*>(made);
  return guarded([&] { return seconds(repetitions, [&] { rotate(static_cast<Stream>(stream)); }); });
}

#ifndef ROTARY_PEERS_CUDA
double peers_plain(const Request* r, std::int64_t repetitions) {
  const auto dtype = static_cast<rotary::DType>(r->dtype);
  const auto rotated = [&](const void* in, void* out, std::int64_t heads) {
    const rotary::cli::bench::PlainJob job{in, out, r->cos, r->sin, heads, r->head_dim, r->interleaved != 0};
    return rotary::cli::bench::rotate_plainly("", dtype, job, 0, r->tokens);
  };
  bool known = true;
  const double time =
      seconds(repetitions, [&] { known = rotated(r->q, r->q_out, r->heads) && rotated(r->k, r->k_out, r->kv_heads); });
  if (!known) last_error() = "this compiler has no type for f16";
  return known ? time : -1;
}

// Times a C function of another library: ggml's compute.
double peers_repeat(int (*function)(void*, void*), void* first, void* second, std::int64_t repetitions) {
  return seconds(repetitions, [&] { function(first, second); });
}
#endif

}  // extern "C"
