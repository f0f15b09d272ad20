// rotary beside the plain loop of peers/plain_loop.cpp, as this program was compiled (-march=native, or -march=haswell
// for AVX2), and beside the ceiling: cells of `rotary bench`, verified, with the loop as a peer. All in turn, medians;
// a line of JSON a cell.
//   beside_loop [--threads N] [--rounds N] [--dtype f32|bf16|f16] [--layout bthd|bhtd] [--tokens N] [--head-dim N]
//               [--pairing half|interleaved] [--place in|out] [--pages 2MiB|4KiB]
// By default all cells: 40 heads of 64 to 256 elements in pages of 2 MiB and, for 128, of 4 KiB as well; bthd of 1 to
// 8192 tokens, bhtd of 2048 and 8192. Both turn all heads in one call. ROTARY_TARGET=NAME chooses rotary's kernels.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "apps/rotary/bench/measure.h"
#include "peers/plain_loop.h"
#include "rotary/targets.h"

namespace {

using namespace rotary;
using namespace rotary::cli::bench;

constexpr std::int64_t all_heads = 40, most_elements = all_heads * 8192 * 128;

// What is measured; an empty list of tokens or pages is the default of the layout or of the head_dim.
struct Lists {
  std::vector<DType> dtypes = {DType::f32, DType::bf16, DType::f16};
  std::vector<std::string> layouts = {"bthd", "bhtd"};
  std::vector<std::int64_t> tokens = {};
  std::vector<int> head_dims = {64, 80, 96, 128, 256};
  std::vector<Pairing> pairings = {Pairing::half, Pairing::interleaved};
  std::vector<bool> in_place = {true, false}, huge_pages = {};
  unsigned threads = 1;
  int rounds = 7;
};

class BesideLoop {
 public:
  BesideLoop(unsigned threads, int rounds) : threads_(threads), rounds_(rounds) {}

  void measure(const Cell& cell, bool huge_pages) {
    std::unique_ptr<Machine>& machine = machines_[huge_pages];
    if (!machine) machine = cpu(huge_pages);
    const std::unique_ptr<ReadyCell> ready = machine->prepare(cell);
    const Table table = ready->table();
    const Tensors& at = ready->sets.front();
    const peers::PlainJob job{at.q.data,
                              at.q_out.data,
                              table.cos().data(),
                              table.sin().data(),
                              cell.tokens,
                              cell.heads,
                              cell.head_dim,
                              cell.pairing == Pairing::interleaved,
                              static_cast<int>(threads_),
                              cell.layout == "bhtd"};
    const auto storage = static_cast<peers::Storage>(cell.dtype);
    const bool known = cell.dtype != DType::f16 || peers::plain_rotate(storage, job);
    if (known) ready->beside.push_back([&] { peers::plain_rotate(storage, job); });
    // OpenMP's threads spin for some 15 ms after their last loop, on the processor that rotary's thread needs.
    const Pace pace{.rounds = rounds_, .sample = 0.004, .rest = threads_ > 1 ? 0.03 : 0};
    print(cli::bench::measure(*ready, pace), huge_pages);
  }

 private:
  static void print(const Result& result, bool huge_pages) {
    const Cell& cell = result.cell;
    std::printf(
        "{\"dtype\":\"%s\",\"layout\":\"%s\",\"pairing\":\"%s\",\"tokens\":%lld,\"head_dim\":%d,\"in_place\":%s,"
        "\"pages\":\"%s\",\"threads\":%u,\"target\":\"%s\",\"ns_per_element\":%.5f,\"percent_of_ceiling\":%.2f,\"ratio_"
        "to_loop\":",
        name(cell.dtype), cell.layout.c_str(), name(cell.pairing), static_cast<long long>(cell.tokens), cell.head_dim,
        cell.in_place ? "true" : "false", huge_pages ? "2 MiB" : "4 KiB", cell.threads, cell.target.c_str(),
        result.ns_per_element(), result.percent_of_ceiling());
    result.beside_seconds.empty() ? std::printf("null}\n")
                                  : std::printf("%.4f}\n", result.beside_seconds.front() / result.seconds);
    std::fflush(stdout);
  }

  const unsigned threads_;
  const int rounds_;
  std::map<bool, std::unique_ptr<Machine>> machines_;
};

template <class T>
bool choose(const std::map<std::string, T>& names, const std::string& word, std::vector<T>& list) {
  const auto found = names.find(word);
  if (found != names.end()) list = {found->second};
  return found != names.end();
}

bool accept(Lists& lists, const std::string& flag, const std::string& word) {
  const std::map<std::string, DType> dtypes = {{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}};
  const std::map<std::string, Pairing> pairings = {{"half", Pairing::half}, {"interleaved", Pairing::interleaved}};
  const int number = std::atoi(word.c_str());
  if (flag == "--dtype") return choose(dtypes, word, lists.dtypes);
  if (flag == "--pairing") return choose(pairings, word, lists.pairings);
  if (flag == "--layout") return choose<std::string>({{"bthd", "bthd"}, {"bhtd", "bhtd"}}, word, lists.layouts);
  if (flag == "--place") return choose<bool>({{"in", true}, {"out", false}}, word, lists.in_place);
  if (flag == "--pages") return choose<bool>({{"2MiB", true}, {"4KiB", false}}, word, lists.huge_pages);
  if (flag == "--tokens") lists.tokens = {number};
  if (flag == "--head-dim") lists.head_dims = {number};
  if (flag == "--threads") lists.threads = static_cast<unsigned>(number);
  if (flag == "--rounds") lists.rounds = number;
  const bool known = flag == "--tokens" || flag == "--threads" || flag == "--rounds";
  return number > 0 && (known || (flag == "--head-dim" && number % 2 == 0));
}

void measure_layout(BesideLoop& bench, const Lists& lists, Cell cell) {
  using Tokens = std::vector<std::int64_t>;
  const Tokens all = cell.layout == "bhtd" ? Tokens{2048, 8192} : Tokens{1, 64, 2048, 8192};
  for (const std::int64_t tokens : lists.tokens.empty() ? all : lists.tokens) {
    for (const int head_dim : lists.head_dims) {
      cell.head_dim = cell.rotary_dim = head_dim;
      cell.tokens = std::max<std::int64_t>(1, std::min(tokens, most_elements / all_heads / head_dim));
      std::vector<bool> pages = lists.huge_pages;
      if (pages.empty()) pages = head_dim == 128 ? std::vector<bool>{true, false} : std::vector<bool>{true};
      for (const Pairing pairing : lists.pairings) {
        for (const bool in_place : lists.in_place) {
          cell.pairing = pairing;
          cell.in_place = in_place;
          for (const bool huge_pages : pages) bench.measure(cell, huge_pages);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Lists lists;
  bool good = argc % 2 == 1;
  for (int i = 1; i + 1 < argc; i += 2) good = accept(lists, argv[i], argv[i + 1]) && good;
  if (!good) {
    std::fprintf(stderr,
                 "usage: beside_loop [--threads N] [--rounds N] [--dtype f32|bf16|f16] [--layout bthd|bhtd] [--tokens "
                 "N] [--head-dim N] [--pairing half|interleaved] [--place in|out] [--pages 2MiB|4KiB]\n");
    return 2;
  }
  BesideLoop bench(lists.threads, lists.rounds);
  Cell cell{.heads = all_heads, .kv_heads = 0, .threads = lists.threads, .target = std::string(chosen_target())};
  for (const DType dtype : lists.dtypes) {
    for (const std::string& layout : lists.layouts) {
      cell.dtype = dtype;
      cell.layout = layout;
      measure_layout(bench, lists, cell);
    }
  }
}
