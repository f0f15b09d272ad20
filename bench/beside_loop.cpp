// rotary beside the plain loop of peers/plain_loop.cpp, as this program was compiled (-march=native, or -march=haswell
// for AVX2), and beside the ceiling: the fastest way to move the same bytes. All in turn, medians; a line of JSON a
// case.
//   beside_loop [--threads N] [--rounds N] [--dtype f32|bf16|f16] [--layout bthd|bhtd] [--tokens N] [--head-dim N]
//               [--pairing half|interleaved] [--place in|out] [--pages 2MiB|4KiB]
// By default all cells: 32 + 8 heads of 64 to 256 elements in pages of 2 MiB and, for 128, of 4 KiB as well; bthd of 1
// to 8192 tokens, bhtd of 2048 and 8192. Both turn all heads in one call. ROTARY_TARGET=NAME chooses rotary's kernels.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
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
using Index = std::int64_t;

constexpr Index heads_of_both = 40, most_elements = heads_of_both * 8192 * 128;
constexpr double sample = 0.004, warm = 0.001;

// Each list has what is measured; of the pages an empty list is the default.
struct Options {
  std::vector<DType> dtypes = {DType::f32, DType::bf16, DType::f16};
  std::vector<bool> by_head = {false, true}, in_place = {true, false}, large_pages;
  std::vector<Index> tokens;  // empty: the default of the layout
  std::vector<int> head_dims = {64, 80, 96, 128, 256};
  std::vector<Pairing> pairings = {Pairing::half, Pairing::interleaved};
  unsigned threads = 1;
  int rounds = 7;
};

struct Case {
  DType dtype;
  bool by_head;
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
    const Layout layout =
        c.by_head ? bhtd(1, heads_of_both, c.tokens, c.head_dim) : bthd(1, c.tokens, heads_of_both, c.head_dim);
    const RotateOptions how{Direction::forward, executor()};
    std::vector<Work> works;
    if (c.in_place) {
      works.push_back([&, layout] { rotate(Heads(in, c.dtype, layout), table, how); });
    } else {
      works.push_back(
          [&, layout] { rotate(ConstHeads(in, c.dtype, layout), Heads(out, c.dtype, layout), table, how); });
    }
    for (const detail::Move& move : detail::ceiling_moves(in, out, bytes, executor()))
      works.push_back([=, this] { detail::move_bytes(move, in, out, bytes, executor()); });
    const peers::PlainJob job{in,
                              out,
                              table.cos().data(),
                              table.sin().data(),
                              c.tokens,
                              heads_of_both,
                              c.head_dim,
                              c.pairing == Pairing::interleaved,
                              static_cast<int>(options_.threads),
                              c.by_head};
    const auto storage = static_cast<peers::Storage>(c.dtype);
    const bool known = c.dtype != DType::f16 || peers::plain_rotate(storage, job);
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
        "{\"dtype\":\"%s\",\"layout\":\"%s\",\"pairing\":\"%s\",\"tokens\":%lld,\"head_dim\":%d,\"in_place\":%s,"
        "\"pages\":\"%s\",\"threads\":%u,\"target\":\"%s\",\"ns_per_element\":%.5f,\"percent_of_ceiling\":%.2f,\"ratio_"
        "to_loop\":",
        name(c.dtype), c.by_head ? "bhtd" : "bthd", name(c.pairing), static_cast<long long>(c.tokens), c.head_dim,
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

// What the value says, where it is one of the names.
template <class T>
bool chosen(const std::string& value, const std::vector<std::pair<std::string, T>>& names, std::vector<T>& all) {
  for (const auto& [name, meaning] : names) {
    if (value == name) all = {meaning};
  }
  return std::any_of(names.begin(), names.end(), [&](const auto& each) { return value == each.first; });
}

bool accept(Options& options, const std::string& flag, const std::string& value) {
  if (flag == "--dtype")
    return chosen<DType>(value, {{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}}, options.dtypes);
  if (flag == "--layout") return chosen<bool>(value, {{"bthd", false}, {"bhtd", true}}, options.by_head);
  if (flag == "--pairing")
    return chosen<Pairing>(value, {{"half", Pairing::half}, {"interleaved", Pairing::interleaved}}, options.pairings);
  if (flag == "--place") return chosen<bool>(value, {{"in", true}, {"out", false}}, options.in_place);
  if (flag == "--pages") return chosen<bool>(value, {{"2MiB", true}, {"4KiB", false}}, options.large_pages);
  const int number = std::atoi(value.c_str());
  if (number < 1) return false;
  if (flag == "--tokens") {
    options.tokens = {number};
  } else if (flag == "--head-dim" && number % 2 == 0) {
    options.head_dims = {number};
  } else if (flag == "--threads") {
    options.threads = static_cast<unsigned>(number);
  } else if (flag == "--rounds") {
    options.rounds = number;
  } else {
    return false;
  }
  return true;
}

Options parsed(int argc, char** argv) {
  Options options;
  bool good = argc % 2 == 1;
  for (int i = 1; i + 1 < argc; i += 2) good = accept(options, argv[i], argv[i + 1]) && good;
  if (good) return options;
  std::fprintf(stderr,
               "usage: beside_loop [--threads N] [--rounds N] [--dtype f32|bf16|f16] [--layout bthd|bhtd] [--tokens N] "
               "[--head-dim N] [--pairing half|interleaved] [--place in|out] [--pages 2MiB|4KiB]\n");
  std::exit(2);
}

void measure_all(Bench& bench, const Options& options, DType dtype, bool by_head) {
  std::vector<Index> all_tokens = options.tokens;
  if (all_tokens.empty()) all_tokens = by_head ? std::vector<Index>{2048, 8192} : std::vector<Index>{1, 64, 2048, 8192};
  for (const Index tokens : all_tokens) {
    for (const int head_dim : options.head_dims) {
      const Index fitting = std::min(tokens, most_elements / heads_of_both / head_dim);
      for (const Pairing pairing : options.pairings) {
        for (const bool in_place : options.in_place) {
          std::vector<bool> pages = options.large_pages;
          if (pages.empty()) pages = head_dim == 128 ? std::vector<bool>{true, false} : std::vector<bool>{true};
          for (const bool large : pages)
            bench.measure({dtype, by_head, pairing, std::max(Index{1}, fitting), head_dim, in_place, large});
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parsed(argc, argv);
  Bench bench(options);
  for (const DType dtype : options.dtypes) {
    for (const bool by_head : options.by_head) measure_all(bench, options, dtype, by_head);
  }
}
