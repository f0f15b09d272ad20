// rotary beside the plain loop of peers/plain_loop.cpp, as this program was compiled (-march=native, or -march=haswell
// for AVX2), and beside the ceiling: cells of `rotary bench`, verified, with the loop as a peer. All in turn, medians;
// a line of JSON a cell.
//   beside_loop [KEY=VALUE...]
// KEY: dtype, layout (bthd, bhtd), tokens, head_dim, pairing (half, interleaved), in_place, threads; rounds (default
// 7); pages (2MiB, 4KiB). By default all cells: 40 heads of 64 to 256 elements in pages of 2 MiB and, for 128, of 4 KiB
// as well; bthd of 1 to 8192 tokens, bhtd of 2048 and 8192. Both turn all heads in one call. ROTARY_TARGET=NAME chooses
// rotary's kernels.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/rotary/bench/bench.h"
#include "peers/plain_loop.h"
#include "rotary/targets.h"

namespace {

using namespace rotary;
using namespace rotary::cli::bench;

constexpr std::int64_t all_heads = 40, most_elements = all_heads * 8192 * 128;

Result measured(ReadyCell& ready, int rounds) {
  const Cell& cell = ready.cell;
  const Table table = ready.table();
  const Tensors& at = ready.sets.front();
  const peers::PlainJob job{at.q.data,
                            at.q_out.data,
                            table.cos().data(),
                            table.sin().data(),
                            cell.tokens,
                            cell.heads,
                            cell.head_dim,
                            cell.pairing == Pairing::interleaved,
                            static_cast<int>(cell.threads),
                            cell.layout == "bhtd"};
  const auto storage = static_cast<peers::Storage>(cell.dtype);
  const bool known = cell.dtype != DType::f16 || peers::plain_rotate(storage, job);
  if (known) ready.beside.push_back([&] { peers::plain_rotate(storage, job); });
  // OpenMP's threads spin for some 15 ms after their last loop, on the processor that rotary's thread needs.
  return measure(ready, {.rounds = rounds, .sample = 0.004, .rest = cell.threads > 1 ? 0.03 : 0});
}

void print(const Result& result, const std::string& pages) {
  nlohmann::ordered_json json = describe(result.cell);
  json["pages"] = pages;
  json["ns_per_element"] = result.ns_per_element();
  json["percent_of_ceiling"] = result.percent_of_ceiling();
  json["ratio_to_loop"] = nullptr;
  if (!result.beside_seconds.empty()) json["ratio_to_loop"] = result.beside_seconds.front() / result.seconds;
  std::cout << json.dump() << std::endl;
}

// In as many tokens as most_elements hold.
std::vector<Cell> cells_of(Words words) {
  words["heads"] = std::to_string(all_heads);
  words["kv_heads"] = "0";
  words["target"] = chosen_target();
  std::vector<std::string> rows;
  for (const std::string row : {"layout=bthd tokens=1,64,2048,8192", "layout=bhtd tokens=2048,8192"}) {
    if (words.contains("layout") && !row.starts_with("layout=" + words["layout"])) continue;
    rows.push_back("dtype=f32,bf16,f16 " + row +
                   " head_dim=64,80,96,128,256 pairing=half,interleaved in_place=true,false");
  }
  std::vector<Cell> cells = combined(rows, words);
  for (Cell& cell : cells) cell.tokens = std::min(cell.tokens, most_elements / all_heads / cell.head_dim);
  return cells;
}

}  // namespace

int main(int argc, char** argv) {
  Words words;
  const nlohmann::ordered_json known = describe({});
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], key = word.substr(0, word.find('='));
    good = good && word.size() > key.size() + 1 &&
           ((known.contains(key) && key != "op") || key == "rounds" || key == "pages");
    if (good) words[key] = word.substr(key.size() + 1);
  }
  const int rounds = words.contains("rounds") ? std::atoi(words["rounds"].c_str()) : 7;
  if (!good || rounds < 1) {
    std::cerr << "usage: beside_loop [KEY=VALUE...]    (KEY: a property of a cell, rounds, pages)\n";
    return 2;
  }
  std::map<std::string, std::unique_ptr<Machine>> machines;
  machines["2 MiB"] = cpu(true);
  machines["4 KiB"] = cpu(false);
  for (const Cell& cell : cells_of(words)) {
    for (const auto& [pages, machine] : machines) {
      const bool chosen = words.contains("pages") ? words["pages"] == (pages == "2 MiB" ? "2MiB" : "4KiB")
                                                  : pages == "2 MiB" || cell.head_dim == 128;
      if (chosen) print(measured(*machine->prepare(cell), rounds), pages);
    }
  }
}
