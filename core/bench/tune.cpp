// Whether other values of the constants of core/cpu/tuning.h would be faster on this machine. Prints only those that
// are, by more than the noise measured beside them.
//   tune [SECONDS [MIB]]
// SECONDS: about how long, default 60 (the largest sizes take what they take). MIB: of the largest tensor, default 256.
// ROTARY_TARGET=NAME chooses the instruction set.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cpu/tuning.h"
#include "rotary/rotary.h"
#include "rotary/targets.h"

namespace {

using namespace rotary;
using detail::tuning;
using Index = std::int64_t;

constexpr Index heads = 40, heads_of_q = 32, head_dim = 128, kib = 1024, mib = 1024 * 1024;
constexpr double least_gain = 0.01;

using Work = std::function<void()>;

// Seconds of one run, of as many as take `seconds` together.
double repeated(const Work& work, double seconds) {
  using Clock = std::chrono::steady_clock;
  double took = 0;
  int runs = 0;
  for (; runs == 0 || took < seconds; ++runs) {
    const Clock::time_point begin = Clock::now();
    work();
    took += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return took / runs;
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::lround(part * static_cast<double>(values.size() - 1)))];
}

std::string to_text(Index bytes) {
  return bytes >= mib ? std::to_string(bytes / mib) + " MiB" : std::to_string(bytes / kib) + " KiB";
}

std::shared_ptr<const Table> table_of(Index tokens) {
  return std::make_shared<const Table>(frequencies({.head_dim = head_dim, .pairing = Pairing::half}),
                                       positions(100, tokens));
}

struct Value {
  std::string name;
  std::vector<Work> cases;
};

class Tuner {
 public:
  // The tensors lie in memory that all cases share.
  Tuner(double seconds, Index largest)
      : sample_(seconds / 6000), largest_(largest), memory_(new std::byte[2 * static_cast<std::size_t>(largest)]) {
    std::fill_n(memory_.get(), 2 * largest, std::byte{0x3c});  // a number near 0.01 as f32 and bf16, near 1 as f16
  }

  void run() {
    streaming();
    table();
    if (std::thread::hardware_concurrency() > 1) grain();
    if (found_ == 0) std::printf("nothing to change\n");
  }

 private:
  // The logarithm of the seconds, in the mean of the cases.
  double cost(const Value& value) const {
    double sum = 0;
    for (const Work& work : value.cases) {
      repeated(work, 0.3 * sample_);
      sum += std::log(repeated(work, sample_));
    }
    return sum / static_cast<double>(value.cases.size());
  }

  // The best of all in a first trial is then measured between two measurements of the built-in one, again and again:
  // its gain counts if three quarters of them are above what the two differ by in three quarters.
  void compare(const std::string& constant, const std::vector<Value>& values, std::size_t built_in) {
    // Memory that was read by computing code for long is slow for some 15 ms afterwards.
    repeated(values[built_in].cases.front(), 4 * sample_);
    std::vector<std::vector<double>> trial(values.size());
    for (std::size_t i = 0; i < 3 * values.size(); ++i) {
      const std::size_t at = (i + i / values.size()) % values.size();
      trial[at].push_back(cost(values[at]));
    }
    std::size_t best = built_in;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (quantile(trial[i], 0.5) < quantile(trial[best], 0.5)) best = i;
    }
    if (best == built_in) return;
    std::vector<double> gains, noise;
    for (int round = 0; round < 9; ++round) {
      const double before = cost(values[built_in]), other = cost(values[best]), after = cost(values[built_in]);
      gains.push_back((before + after) / 2 - other);
      noise.push_back(std::abs(before - after));
    }
    if (quantile(gains, 0.25) <= std::max(least_gain, quantile(noise, 0.75))) return;
    ++found_;
    std::printf("%s: built in %s, %s is %.1f %% faster (noise %.1f %%)\n", constant.c_str(),
                values[built_in].name.c_str(), values[best].name.c_str(), 100 * std::expm1(quantile(gains, 0.5)),
                100 * quantile(noise, 0.75));
    std::fflush(stdout);
  }

  // The cases with the built-in value of one constant, and with others from `least` to 16 times that.
  void sweep(const char* constant, Index detail::Tuning::*member, Index least, const std::vector<Work>& cases) {
    const Index built_in = tuning().*member;
    std::vector<Value> all;
    const auto add = [&](Index value) {
      all.push_back({to_text(value), {}});
      for (const Work& work : cases) {
        all.back().cases.push_back([=] {
          tuning().*member = value;
          work();
        });
      }
    };
    add(built_in);
    for (Index value = least; value <= 16 * least; value *= 2) {
      if (value != built_in) add(value);
    }
    compare(constant, all, 0);
    tuning().*member = built_in;
  }

  static Index row_bytes(DType dtype) { return heads * head_dim * (dtype == DType::f32 ? 4 : 2); }

  Heads tensor(bool second, DType dtype, Index tokens, Index count) const {
    return {memory_.get() + (second ? largest_ : 0), dtype, bthd(1, tokens, count, head_dim)};
  }

  Work rotation(DType dtype, Index bytes, bool in_place, const RotateOptions& options) const {
    const Index tokens = std::max<Index>(1, bytes / row_bytes(dtype));
    const Heads in = tensor(false, dtype, tokens, heads), out = tensor(!in_place, dtype, tokens, heads);
    return [=, table = table_of(tokens)] { rotate(in, out, *table, options); };
  }

  // Where the rule of streaming stores takes the slower way.
  void streaming() {
    const auto second_cache = std::max<Index>(256 * kib, static_cast<Index>(detail::data_caches()[1]));
    for (Index bytes = second_cache / 2; bytes <= largest_; bytes *= 2) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const auto with = [&](Stores stores) { return std::vector{rotation(dtype, bytes, false, {.stores = stores})}; };
        compare("streams(" + to_text(bytes) + ") of " + name(dtype),
                {{"cached", with(Stores::cached)}, {"streaming", with(Stores::streaming)}},
                tuning().streams(bytes) ? 1 : 0);
      }
    }
  }

  void table() {
    std::vector<Work> cases;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Index tokens = std::min<Index>(2048, largest_ / row_bytes(dtype));
      const Heads q = tensor(false, dtype, tokens, heads_of_q), k = tensor(true, dtype, tokens, heads - heads_of_q);
      cases.push_back([q, k, table = table_of(tokens)] { rotate_qk(q, k, *table); });
    }
    sweep("table_bytes", &detail::Tuning::table_bytes, 32 * kib, cases);
  }

  // Two threads, calls in a row, so that no thread sleeps between them.
  void grain() {
    static const ThreadPool pool(2);
    std::vector<Work> cases;
    for (Index bytes = 32 * kib; bytes <= mib; bytes *= 2) {
      for (const DType dtype : {DType::f32, DType::bf16})
        cases.push_back(rotation(dtype, bytes, true, {.executor = &pool}));
    }
    sweep("grain_bytes", &detail::Tuning::grain_bytes, 16 * kib, cases);
  }

  const double sample_;
  const Index largest_;
  const std::unique_ptr<std::byte[]> memory_;
  int found_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 60;
  const Index largest = argc > 2 ? std::atoll(argv[2]) : 256;
  if (seconds <= 0 || largest < 16 || largest > 4096) {
    std::fprintf(stderr, "usage: tune [SECONDS [MIB]]    (SECONDS > 0; 16 <= MIB <= 4096)\n");
    return 2;
  }
  Tuner(seconds, largest * mib).run();
}
