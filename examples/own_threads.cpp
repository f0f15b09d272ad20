// rotary starts no threads of its own: it runs on yours. An Executor is one function: any parallel_for can be
// wrapped in a few lines. Here: a pool that a program might already have, and OpenMP where it is compiled in.
//   g++ -std=c++20 -fopenmp own_threads.cpp $(pkg-config --cflags --libs rotary) -pthread -o own_threads
#include <rotary/rotary.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <numeric>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace {

// An Executor on top of parallel_for(n, fn), which calls fn(0), ..., fn(n - 1) on any threads and waits for them.
template <class ParallelFor>
class OnYourThreads final : public rotary::Executor {
 public:
  OnYourThreads(unsigned threads, ParallelFor parallel_for)
      : threads_(threads), parallel_for_(std::move(parallel_for)) {}

  unsigned concurrency() const noexcept override { return threads_; }

  // The items in equal parts, none of them smaller than the grain: below that a thread costs more than it does.
  void run(std::int64_t count, std::int64_t grain, Body body, void* context) const override {
    const std::int64_t worth = count / std::max<std::int64_t>(1, grain);
    const std::int64_t parts = std::clamp<std::int64_t>(worth, 1, threads_);
    if (count <= 0) return;
    if (parts == 1) return body(context, 0, count);
    const auto begin_of = [=](std::int64_t part) { return count / parts * part + std::min(part, count % parts); };
    parallel_for_(parts, [=](std::int64_t part) { body(context, begin_of(part), begin_of(part + 1)); });
  }

 private:
  unsigned threads_;
  ParallelFor parallel_for_;
};

// The pool that you have: here a toy that starts its threads anew each time.
template <class Fn>
void toy_parallel_for(unsigned threads, std::int64_t n, const Fn& fn) {
  std::atomic<std::int64_t> next = 0;
  const auto work = [&] {
    for (std::int64_t i; (i = next++) < n;) fn(i);
  };
  std::vector<std::thread> others;
  for (unsigned t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

#ifdef _OPENMP
template <class Fn>
void openmp_parallel_for(unsigned threads, std::int64_t n, const Fn& fn) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t i = 0; i < n; ++i) fn(i);
}
#endif

}  // namespace

int main() {
  constexpr unsigned threads = 3;
  constexpr std::int64_t tokens = 256, heads = 10, kv_heads = 2;
  constexpr int head_dim = 64;
  const rotary::Rope rope{.head_dim = head_dim, .base = 10000, .pairing = rotary::Pairing::half};
  const rotary::Table table(rotary::frequencies(rope), rotary::positions(0, tokens));

  // Heads of q, then 2 of k, then 2 of v: q and k rotate in one run of the executor, v stays.
  std::vector<float> x(tokens * heads * head_dim);
  std::iota(x.begin(), x.end(), 1.0f);
  rotary::Layout of_q = rotary::thd(tokens, heads, head_dim), of_k = of_q;
  of_q.heads = heads - 2 * kv_heads;
  of_k.heads = kv_heads;
  const auto rotated = [&](const rotary::Executor& executor) {
    std::vector<float> qkv = x;
    const auto behind_q = std::span(qkv).subspan(static_cast<std::size_t>(of_q.heads * head_dim));
    rotary::rotate_qk(rotary::heads(qkv, of_q), rotary::heads(behind_q, of_k), table, {.executor = &executor});
    return qkv;
  };

  const std::vector<float> alone = rotated(rotary::serial());
  const OnYourThreads yours(threads, [](std::int64_t n, const auto& fn) { toy_parallel_for(threads, n, fn); });
  bool same = rotated(yours) == alone;
  std::printf("on your pool: %s\n", same ? "the same bits" : "DIFFERENT");
#ifdef _OPENMP
  const OnYourThreads openmp(threads, [](std::int64_t n, const auto& fn) { openmp_parallel_for(threads, n, fn); });
  const bool same_openmp = rotated(openmp) == alone;
  std::printf("on OpenMP: %s\n", same_openmp ? "the same bits" : "DIFFERENT");
  same = same && same_openmp;
#endif
  return same ? 0 : 1;
}
