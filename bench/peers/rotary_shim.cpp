// librotary_peers.so: rotary and the plain loop for peers/native.py, through ctypes. Repetitions are timed here, since
// a call from Python costs more than a token's work.
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plain_loop.h"
#include "rotary/rotary.h"
#include "rotary/targets.h"

namespace {

// One dimension more than a call needs: what native.py's class Work mirrors, field by field.
struct Work {
  const void* q;
  const void* k;
  void* q_out;  // in place: q_out == q, k_out == k
  void* k_out;
  const std::int64_t* positions;
  const float* cos;  // [tokens, head_dim / 2], for the plain loop
  const float* sin;
  double base;
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int32_t head_dim;
  std::int32_t dtype;        // the order of rotary::DType
  std::int32_t interleaved;  // 0 or 1
  std::int32_t threads;
};

std::string& last_error() {
  thread_local std::string sentence;
  return sentence;
}

template <class Call>
double seconds(std::int64_t repetitions, Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < repetitions; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

rotary::Frequencies frequencies_of(int head_dim, double base, rotary::Pairing pairing) {
  rotary::Rope rope;
  rope.head_dim = head_dim;
  rope.base = base;
  rope.pairing = pairing;
  return rotary::frequencies(rope);
}

// Everything that a caller makes once, before the first layer of a step.
class Prepared {
 public:
  explicit Prepared(const Work& work)
      : table_(frequencies_of(work.head_dim, work.base, pairing_of(work)),
               std::span(work.positions, static_cast<std::size_t>(work.tokens))),
        q_(view(work.q_out, work.heads, work)),
        k_(view(work.k_out, work.kv_heads, work)),
        q_in_(work.q, q_.dtype, q_.layout),
        k_in_(work.k, k_.dtype, k_.layout),
        in_place_(work.q == work.q_out) {
    if (work.threads > 1) pool_ = std::make_unique<rotary::ThreadPool>(static_cast<unsigned>(work.threads));
  }

  void fused() const {
    if (in_place_) {
      rotary::rotate_qk(q_, k_, table_, executor());
    } else {
      rotary::rotate_qk({q_in_, q_}, {k_in_, k_}, table_, executor());
    }
  }

  void two_calls() const {
    if (in_place_) {
      rotary::rotate(q_, table_, executor());
      rotary::rotate(k_, table_, executor());
    } else {
      rotary::rotate(q_in_, q_, table_, executor());
      rotary::rotate(k_in_, k_, table_, executor());
    }
  }

 private:
  static rotary::Pairing pairing_of(const Work& work) {
    return work.interleaved != 0 ? rotary::Pairing::interleaved : rotary::Pairing::half;
  }
  static rotary::Heads view(void* data, std::int64_t heads, const Work& work) {
    return {data, static_cast<rotary::DType>(work.dtype), rotary::bthd(1, work.tokens, heads, work.head_dim)};
  }
  const rotary::Executor& executor() const { return pool_ ? *pool_ : rotary::serial(); }

  rotary::Table table_;
  rotary::Heads q_;
  rotary::Heads k_;
  rotary::ConstHeads q_in_;
  rotary::ConstHeads k_in_;
  bool in_place_;
  std::unique_ptr<rotary::ThreadPool> pool_;
};

// Seconds, or -1 with the sentence in peers_error().
template <class Call>
double guarded(Call&& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    last_error() = error.what();
    return -1;
  }
}

}  // namespace

extern "C" {

const char* peers_error() { return last_error().c_str(); }
const char* peers_target() { return rotary::chosen_target().data(); }

void* peers_prepare(const Work* work) {
  try {
    return new Prepared(*work);
  } catch (const std::exception& error) {
    last_error() = error.what();
    return nullptr;
  }
}
void peers_release(void* prepared) { delete static_cast<Prepared*>(prepared); }

double peers_fused(const void* prepared, std::int64_t repetitions) {
  return guarded([&] { return seconds(repetitions, [&] { static_cast<const Prepared*>(prepared)->fused(); }); });
}
double peers_two_calls(const void* prepared, std::int64_t repetitions) {
  return guarded([&] { return seconds(repetitions, [&] { static_cast<const Prepared*>(prepared)->two_calls(); }); });
}

double peers_plain(const Work* work, std::int64_t repetitions) {
  const auto job = [&](const void* in, void* out, std::int64_t heads) {
    return peers::PlainJob{
        in, out, work->cos, work->sin, work->tokens, heads, work->head_dim, work->interleaved != 0, work->threads};
  };
  const auto storage = static_cast<peers::Storage>(work->dtype);
  bool known = true;
  const double time = seconds(repetitions, [&] {
    known = peers::plain_rotate(storage, job(work->q, work->q_out, work->heads)) &&
            peers::plain_rotate(storage, job(work->k, work->k_out, work->kv_heads));
  });
  if (!known) last_error() = "this compiler has no type for f16";
  return known ? time : -1;
}

// The exact table of positions 0, 1, ..., made again and again in the same storage; cos and sin get the last one's
// rows.
double peers_table(std::int64_t tokens, std::int32_t head_dim, double base, std::int64_t repetitions, float* cos,
                   float* sin) {
  return guarded([&] {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(tokens));
    for (std::int64_t i = 0; i < tokens; ++i) positions[static_cast<std::size_t>(i)] = i;
    const auto frequencies = frequencies_of(head_dim, base, rotary::Pairing::half);
    static rotary::Table table(frequencies, positions);
    const double time = seconds(repetitions, [&] { table.assign(frequencies, positions); });
    if (cos != nullptr) std::copy(table.cos().begin(), table.cos().end(), cos);
    if (sin != nullptr) std::copy(table.sin().begin(), table.sin().end(), sin);
    return time;
  });
}

// Times a C function of another library: ggml's compute.
double peers_repeat(int (*function)(void*, void*), void* first, void* second, std::int64_t repetitions) {
  return seconds(repetitions, [&] { function(first, second); });
}

}  // extern "C"
