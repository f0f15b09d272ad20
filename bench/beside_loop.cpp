// rotary beside the plain loop of peers/plain_loop.cpp, as this program was compiled (-march=native, or -march=haswell
// for AVX2), and beside the ceiling: the fastest way to move the same bytes. All in turn, medians; a line of JSON a
// case.
//   beside_loop [--dtype f32|bf16|f16] [--threads N] [--rounds N]        ROTARY_TARGET=NAME chooses rotary's kernels
// 32 + 8 heads, bthd, of 64 to 256 elements, in pages of 2 MiB and, for 128, of 4 KiB as well. Both turn all heads in
// one call.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "huge_memory.h"
#include "measure/ceiling.h"
#include "peers/plain_loop.h"
#include "rotary/rotary.h"
#include "rotary/targets.h"
#include "sample.h"

namespace {

using namespace rotary;
using namespace rotary::measured;
using detail::Traffic;
using Index = std::int64_t;

constexpr Index heads_of_both = 40, most_tokens = 8192;
constexpr double sample = 0.004, warm = 0.001;

struct Options {
  std::vector<DType> dtypes = {DType::f32, DType::bf16, DType::f16};
  unsigned threads = 1;
  int rounds = 7;
};

struct Case {
  DType dtype;
  Pairing pairing;
  Index tokens;
  int head_dim;
  bool in_place, large_pages;
};

// Medians of all works, sampled in turn. rest: after each round, until the threads of the last work sleep.
std::vector<double> medians(const std::vector<Work>& works, int rounds, std::chrono::milliseconds rest) {
  std::vector<std::vector<double>> seconds(works.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < works.size(); ++i) {
      repeated(works[i], i == 0 && rest.count() > 0 ? 4 * warm : warm);
      seconds[i].push_back(repeated(works[i], sample));
    }
    std::this_thread::sleep_for(rest);
  }
  std::vector<double> found;
  for (std::vector<double>& each : seconds) {
    std::nth_element(each.begin(), each.begin() + rounds / 2, each.end());
    found.push_back(each[static_cast<std::size_t>(rounds / 2)]);
  }
  return found;
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options), pool_(std::max(1U, options.threads)) {}

  void measure(const Case& c) {
    const bool f32 = c.dtype == DType::f32;
    const auto elements = static_cast<std::size_t>(c.tokens * heads_of_both * c.head_dim);
    const std::size_t bytes = elements * (f32 ? 4 : 2);
    HugeMemory& memory = c.large_pages ? large_ : small_;
    char* const in = memory.begin();
    char* const out = c.in_place ? in : in + HugeMemory::page * 80 + 2048;
    std::memset(in, 0x3c, bytes);
    Rope rope;
    rope.head_dim = c.head_dim;
    rope.pairing = c.pairing;
    const Table table(frequencies(rope), positions(100, c.tokens));
    const Layout layout = bthd(1, c.tokens, heads_of_both, c.head_dim);
    const RotateOptions how{Direction::forward, executor()};
    std::vector<Work> works;
    if (c.in_place) {
      works.push_back([&, layout] { rotate(Heads(in, c.dtype, layout), table, how); });
    } else {
      works.push_back(
          [&, layout] { rotate(ConstHeads(in, c.dtype, layout), Heads(out, c.dtype, layout), table, how); });
    }
    const peers::PlainJob job{in,
                              out,
                              table.cos().data(),
                              table.sin().data(),
                              c.tokens,
                              heads_of_both,
                              c.head_dim,
                              c.pairing == Pairing::interleaved,
                              static_cast<int>(options_.threads)};
    const auto storage = static_cast<peers::Storage>(c.dtype);
    const bool known = c.dtype != DType::f16 || peers::plain_rotate(storage, job);
    const Traffic traffic = c.in_place ? Traffic::update : Traffic::copy;
    works.push_back([&] { detail::move_bytes(traffic, in, out, bytes, executor()); });
    if (!c.in_place) {
      works.push_back([&] { detail::move_bytes(Traffic::stream, in, out, bytes, executor()); });
      if (options_.threads == 1) works.push_back([&] { std::memcpy(out, in, bytes); });
    }
    if (known) works.push_back([&] { peers::plain_rotate(storage, job); });
    // OpenMP's threads spin for some 15 ms after their last loop, on the processor that rotary's thread needs.
    const std::chrono::milliseconds rest(options_.threads > 1 ? 30 : 0);
    print(c, medians(works, options_.rounds, rest), known, static_cast<double>(elements));
  }

 private:
  const Executor& executor() const { return options_.threads > 1 ? static_cast<const Executor&>(pool_) : serial(); }

  void print(const Case& c, const std::vector<double>& seconds, bool known, double elements) const {
    const double rotary = seconds[0], ceiling = *std::min_element(seconds.begin() + 1, seconds.end() - (known ? 1 : 0));
    std::printf(
        "{\"dtype\":\"%s\",\"pairing\":\"%s\",\"tokens\":%lld,\"head_dim\":%d,\"in_place\":%s,\"pages\":\"%s\","
        "\"threads\":%u,\"target\":\"%s\",\"ns_per_element\":%.5f,\"percent_of_ceiling\":%.2f,\"ratio_to_loop\":",
        c.dtype == DType::f32    ? "f32"
        : c.dtype == DType::bf16 ? "bf16"
                                 : "f16",
        c.pairing == Pairing::half ? "half" : "interleaved", static_cast<long long>(c.tokens), c.head_dim,
        c.in_place ? "true" : "false", c.large_pages ? "2 MiB" : "4 KiB", options_.threads,
        std::string(chosen_target()).c_str(), rotary * 1e9 / elements, 100 * ceiling / rotary);
    known ? std::printf("%.4f}\n", seconds.back() / rotary) : std::printf("null}\n");
    std::fflush(stdout);
  }

  const Options options_;
  const ThreadPool pool_;
  // Of 160 MiB: 8192 tokens of 128 f32 elements, 4096 of 256. Half a page apart: loads and stores whose addresses agree
  // in the last twelve bits wait for each other.
  HugeMemory large_{HugeMemory::page * 160 + 4096}, small_{HugeMemory::page * 160 + 4096, false};
};

Options parsed(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--dtype" && (value == "f32" || value == "bf16" || value == "f16")) {
      options.dtypes = {value == "f32" ? DType::f32 : value == "bf16" ? DType::bf16 : DType::f16};
    } else if (flag == "--threads" && std::atoi(value.c_str()) > 0) {
      options.threads = static_cast<unsigned>(std::atoi(value.c_str()));
    } else if (flag == "--rounds" && std::atoi(value.c_str()) > 0) {
      options.rounds = std::atoi(value.c_str());
    } else {
      argc = 0;
    }
  }
  if (argc % 2 == 1) return options;
  std::fprintf(stderr, "usage: beside_loop [--dtype f32|bf16|f16] [--threads N] [--rounds N]\n");
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parsed(argc, argv);
  Bench bench(options);
  for (const DType dtype : options.dtypes) {
    for (const Index tokens : {Index{1}, Index{64}, Index{2048}, most_tokens}) {
      for (const int head_dim : {64, 80, 96, 128, 256}) {
        for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
          for (const bool in_place : {true, false}) {
            const Index fitting = head_dim == 256 ? std::min(tokens, most_tokens / 2) : tokens;
            bench.measure({dtype, pairing, fitting, head_dim, in_place, true});
            if (head_dim == 128) bench.measure({dtype, pairing, fitting, head_dim, in_place, false});
          }
        }
      }
    }
  }
}
