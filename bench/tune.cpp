// Sweeps the constants of src/cpu/tuning.h on this machine, and prints what it would choose beside what is built in.
//   tune [--seconds S] [--largest MIB] [--json]
// S: about how long, default 120 (the largest sizes take what they take). MIB: of the largest tensor, default 256.
// All values of a constant are measured in turn, round by round; a value's time is compared with the built-in one's of
// the same round. ROTARY_TARGET=NAME chooses the instruction set.
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

#include "cpu/tuning.h"
#include "huge_memory.h"
#include "measure/ceiling.h"
#include "rotary/rotary.h"
#include "rotary/targets.h"
#include "runtime/last_cache.h"
#include "sample.h"
#include "tune_choice.h"

namespace {

using namespace rotary;
using namespace rotary::measured;
using detail::Traffic, detail::tuning;
using Index = std::int64_t;

constexpr Index heads_of_q = 40, head_dim = 128, kib = 1024, mib = 1024 * 1024, never = INT64_MAX;

struct Options {
  double seconds = 120;
  Index largest = 256 * mib;
  bool json = false;
  double sample() const { return seconds / 12000; }
  std::size_t rounds() const { return seconds < 10 ? 3 : 9; }
};

// What is measured: tensors in memory that all cases share.
class Tuner {
 public:
  explicit Tuner(const Options& options)
      : options_(options),
        built_in_(tuning()),
        memory_(2 * static_cast<std::size_t>(options.largest)),
        second_cache_(std::max<Index>(256 * kib, static_cast<Index>(detail::data_caches()[1]))) {}

  void run() {
    prefetching();
    prefetching_from();
    streaming();
    heads_together();
    grain();
  }

 private:
  // Memory that was read by computing code for long is slow for some 15 ms afterwards: each case begins with as much.
  Rounds measure(const std::vector<Work>& works) const {
    repeated(works.front(), 4 * options_.sample());
    Rounds rounds(options_.rounds(), std::vector<double>(works.size()));
    for (std::size_t round = 0; round < rounds.size(); ++round) {
      for (std::size_t k = 0; k < works.size(); ++k) {
        const std::size_t i = (k + round) % works.size();
        repeated(works[i], 0.3 * options_.sample());
        rounds[round][i] = repeated(works[i], options_.sample());
      }
    }
    return rounds;
  }

  struct Kind {
    DType dtype = DType::f32;
    Pairing pairing = Pairing::half;
    Index bytes = 0;  // read
    bool by_head = false;
    bool in_place = true;
  };

  // One call, with the constants as they are when it runs.
  Work rotation(const Kind& kind, const RotateOptions& rotation_options = {}) const {
    const Index tokens =
        std::max<Index>(1, kind.bytes / (heads_of_q * head_dim * static_cast<Index>(size_of_element(kind.dtype))));
    Rope rope;
    rope.head_dim = head_dim;
    rope.pairing = kind.pairing;
    const auto table = std::make_shared<const Table>(frequencies(rope), positions(100, tokens));
    const Layout layout = kind.by_head ? bhtd(1, heads_of_q, tokens, head_dim) : bthd(1, tokens, heads_of_q, head_dim);
    const Heads in(memory_.begin(), kind.dtype, layout);
    if (kind.in_place) return [=] { rotate(in, *table, rotation_options); };
    const Heads out(memory_.begin() + options_.largest, kind.dtype, layout);
    return [=] { rotate(ConstHeads(in.data, in.dtype, in.layout), out, *table, rotation_options); };
  }
  static std::size_t size_of_element(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

  // The same work with each value of one constant.
  std::vector<Work> with_each(Index detail::Tuning::*constant, const std::vector<Index>& values,
                              const Work& work) const {
    std::vector<Work> works;
    for (const Index value : values) {
      works.push_back([=] {
        tuning().*constant = value;
        work();
      });
    }
    return works;
  }

  // Sorted, each once, the built-in value among them.
  static std::vector<Index> values_with(std::vector<Index> values, Index built_in) {
    values.push_back(built_in);
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }

  Choice report(const Choice& choice) const {
    std::printf("%s\n", options_.json ? json_of(choice).c_str() : sentence(choice).c_str());
    if (!options_.json) std::printf("%s\n", details(choice).c_str());
    std::fflush(stdout);
    tuning() = built_in_;
    return choice;
  }

  Choice sweep(const char* name, const char* unit, Index detail::Tuning::*constant, std::vector<Index> values,
               const std::vector<Work>& cases) const {
    const std::vector<Index> all = values_with(std::move(values), built_in_.*constant);
    std::vector<Rounds> rounds;
    for (const Work& work : cases) rounds.push_back(measure(with_each(constant, all, work)));
    return report(choose(name, unit, all, built_in_.*constant, rounds));
  }

  // In place: from a far cache, and from memory.
  void prefetching() {
    const std::vector<Index> values = {0, 1 * kib, 2 * kib, 3 * kib, 4 * kib, 8 * kib, 16 * kib, 24 * kib, 32 * kib};
    std::vector<Work> wide, narrow;
    for (const Index bytes : {std::min(4 * second_cache_, options_.largest), options_.largest}) {
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
        wide.push_back(rotation({DType::f32, pairing, bytes}));
        for (const DType dtype : {DType::bf16, DType::f16}) narrow.push_back(rotation({dtype, pairing, bytes}));
      }
    }
    tuning().prefetch_from = 0;
    const Choice f32 = sweep("prefetch_f32", "bytes", &detail::Tuning::prefetch_f32, values, wide);
    tuning().prefetch_from = 0;
    const Choice other = sweep("prefetch_16_bit", "bytes", &detail::Tuning::prefetch_16_bit, values, narrow);
    distance_f32_ = f32.values[built_in_.prefetch_f32 > 0 ? f32.built_in : f32.best];
    distance_16_bit_ = other.values[built_in_.prefetch_16_bit > 0 ? other.built_in : other.best];
  }

  // Of two ways that are measured at several sizes: what a threshold between them takes. values: the second way
  // is taken by sizes for which taken(size, value).
  template <class Taken>
  static std::vector<Rounds> by_threshold(const std::vector<Rounds>& ways, const std::vector<Index>& sizes,
                                          const std::vector<Index>& values, const Taken& taken) {
    std::vector<Rounds> cases;
    for (std::size_t at = 0; at < ways.size(); ++at) {
      cases.emplace_back();
      for (const std::vector<double>& both : ways[at]) {
        cases.back().emplace_back();
        for (const Index value : values) cases.back().back().push_back(both[taken(sizes[at], value) ? 1 : 0]);
      }
    }
    return cases;
  }

  // In place, by the bytes that a call touches.
  void prefetching_from() {
    if (distance_f32_ == 0 && distance_16_bit_ == 0) return note("prefetch_from", "nothing is gained by prefetching");
    std::vector<Index> values = {0, never}, sizes;
    std::vector<Rounds> ways;
    for (Index bytes = second_cache_ / 16; bytes <= 8 * second_cache_; bytes *= 2) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const Work work = rotation({dtype, Pairing::half, bytes});
        const auto fetching = [=, this](bool fetch) {
          tuning().prefetch_f32 = fetch ? distance_f32_ : 0;
          tuning().prefetch_16_bit = fetch ? distance_16_bit_ : 0;
          tuning().prefetch_from = 0;
          work();
        };
        ways.push_back(measure({[=] { fetching(false); }, [=] { fetching(true); }}));
        sizes.push_back(bytes);
      }
      values.push_back(bytes);
    }
    values = values_with(std::move(values), built_in_.prefetch_from);
    const auto taken = [](Index size, Index value) { return size >= value; };
    report(choose("prefetch_from", "bytes", values, built_in_.prefetch_from, by_threshold(ways, sizes, values, taken)));
  }

  static double median(const Rounds& rounds, std::size_t way) {
    std::vector<double> seconds;
    for (const std::vector<double>& round : rounds) seconds.push_back(round[way]);
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
    return seconds[seconds.size() / 2];
  }

  // Out of place: cached or past the caches, by the bytes that a call reads, beside copies of as many.
  void streaming() {
    std::vector<Index> values = {0, never}, sizes;
    std::vector<Rounds> ways;
    if (!options_.json) {
      std::printf("out of place, ns per 8 bytes read   rotate cached  streaming    copy  streaming copy  memcpy\n");
    }
    for (Index bytes = second_cache_ / 2; bytes <= options_.largest; bytes *= 2) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        Kind kind{dtype, Pairing::half, bytes};
        kind.in_place = false;
        char *const in = memory_.begin(), *const out = in + options_.largest;
        const auto size = static_cast<std::size_t>(bytes);
        ways.push_back(measure({rotation(kind, {Direction::forward, serial(), Stores::cached}),
                                rotation(kind, {Direction::forward, serial(), Stores::streaming}),
                                [=] { detail::move_bytes(Traffic::copy, in, out, size); },
                                [=] { detail::move_bytes(Traffic::stream, in, out, size); },
                                [=] { std::memcpy(out, in, size); }}));
        sizes.push_back(bytes);
        if (options_.json) continue;
        std::printf("  %8s  %-4s %s", text_of(bytes, "bytes").c_str(), dtype == DType::f32 ? "f32" : "bf16",
                    built_in_.streams(bytes) ? "(built in: streams)" : "(built in: cached) ");
        for (std::size_t way = 0; way < 5; ++way) {
          std::printf(" %11.3f", median(ways.back(), way) * 8e9 / static_cast<double>(bytes));
        }
        std::printf("\n");
      }
      values.push_back(bytes);
    }
    values = values_with(std::move(values), built_in_.stream_from);
    const auto taken = [this](Index size, Index value) {
      detail::Tuning rule = built_in_;
      rule.stream_from = value;
      return rule.streams(size);
    };
    report(choose("stream_from", "bytes", values, built_in_.stream_from, by_threshold(ways, sizes, values, taken)));
  }

  void heads_together() {
    const auto cases = [this](DType dtype, std::initializer_list<Index> sizes) {
      std::vector<Work> works;
      for (const Index bytes : sizes) {
        Kind kind{dtype, Pairing::half, std::min(bytes, options_.largest)};
        kind.by_head = true;
        works.push_back(rotation(kind));
      }
      return works;
    };
    sweep("heads_together", "heads", &detail::Tuning::heads_together, {1, 2, 4, 8, 16},
          cases(DType::f32, {second_cache_ / 2, 4 * second_cache_}));
    sweep("heads_together_else", "heads", &detail::Tuning::heads_together_else, {1, 2, 4, 8, 16},
          cases(DType::bf16, {second_cache_ / 2, 4 * second_cache_, 16 * second_cache_, options_.largest}));
  }

  // Two threads, calls in a row, so that no thread sleeps between them.
  void grain() {
    if (std::thread::hardware_concurrency() < 2) return note("grain_bytes", "one processor");
    static const ThreadPool pool(2);
    std::vector<Work> cases;
    for (Index bytes = 32 * kib; bytes <= mib; bytes *= 2) {
      cases.push_back(rotation({DType::f32, Pairing::half, bytes}, {Direction::forward, pool}));
      cases.push_back(rotation({DType::bf16, Pairing::half, bytes}, {Direction::forward, pool}));
    }
    sweep("grain_bytes", "bytes", &detail::Tuning::grain_bytes,
          {8 * kib, 16 * kib, 32 * kib, 64 * kib, 128 * kib, 256 * kib}, cases);
  }

  void note(const char* constant, const char* why) const {
    if (options_.json) {
      std::printf("{\"constant\":\"%s\",\"left_out\":\"%s\"}\n", constant, why);
    } else {
      std::printf("%-18s left out: %s\n", constant, why);
    }
  }

  const Options options_;
  const detail::Tuning built_in_;
  const HugeMemory memory_;
  const Index second_cache_;
  Index distance_f32_ = 0, distance_16_bit_ = 0;
};

[[noreturn]] void usage() {
  std::fprintf(stderr, "usage: tune [--seconds S] [--largest MIB] [--json]    (S > 0; 16 <= MIB <= 4096)\n");
  std::exit(2);
}

Options parsed(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--json") {
      options.json = true;
      continue;
    }
    if (i + 1 == argc) usage();
    char* end = nullptr;
    const double value = std::strtod(argv[++i], &end);
    if (*end != '\0') usage();
    if (flag == "--seconds" && value > 0) {
      options.seconds = value;
    } else if (flag == "--largest" && value >= 16 && value <= 4096) {
      options.largest = static_cast<Index>(value) * mib;
    } else {
      usage();
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parsed(argc, argv);
  const double begin = now();
  const detail::DataCaches caches = detail::data_caches();
  if (!options.json) {
    std::printf("target %s; caches %zu KiB, %zu KiB, %zu KiB; %u processors\n", std::string(chosen_target()).c_str(),
                caches[0] / 1024, caches[1] / 1024, caches[2] / 1024, std::thread::hardware_concurrency());
  }
  Tuner(options).run();
  if (options.json) return 0;
  std::printf(
      "abreast_bytes %lld, stage_bytes %lld: compiled in, not swept\n%.0f s. The percentages are times beside the "
      "built-in value's; what is within noise is no reason for a change.\n",
      static_cast<long long>(detail::abreast_bytes), static_cast<long long>(detail::stage_bytes), now() - begin);
}
