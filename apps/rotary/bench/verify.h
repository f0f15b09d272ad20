// Before a cell is timed, its result is compared with the reference, bit for bit.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cell.h"
#include "memory.h"
#include "rotary/rotary.h"

namespace rotary::cli::bench {

// Fills the memory, runs work once and compares q and k with reference::rotate of the same values:
// every token, or where there are many elements the first, middle and last tokens. Throws CHECK. Returns the number of
// elements compared.
std::int64_t verify(const Cell&, const Places&, const Table&, const std::function<void()>& work);

// The same where the memory is not the program's own.
struct Elsewhere {
  std::function<void()> fill;  // the inputs; the outputs with what cannot be right
  std::function<void()> work;
  std::function<void(void* to, const void* from, std::size_t bytes)> read;  // waits for the work
};
// Without a table (Cell::with_table) cos and sin may be off by 1.1e-7.
std::int64_t verify(const Cell&, const Places&, const Table&, const Elsewhere&);

// ---- of what these are made ----

struct Row {
  std::int64_t batch;
  std::int64_t token;
};
// All rows, or where they hold many elements some from the beginning, the middle and the end.
std::vector<Row> chosen_rows(const Cell&);
// The heads of those rows, one behind the other.
std::vector<std::byte> gather(const Heads&, const std::vector<Row>&, const Elsewhere&);
Table table_of(const std::vector<Row>&, const Table&);
// Elements of `after` that are not what the cell should make of `before`; both as gathered.
std::int64_t count_rotated(const Cell&, std::int64_t heads, const Table&, const std::vector<std::byte>& before,
                           const std::vector<std::byte>& after);
// Elements of `after`, gathered heads, that lie further from the rotation in double arithmetic than
// allowed(|a| + |b|, the element), where (a, b) is the pair before: before(i) is element i of the gathered heads. NaN
// is far. Elements of no pair are not looked at.
std::int64_t count_far(const Cell&, std::int64_t heads, const Table&, const std::function<double(std::int64_t)>& before,
                       const std::vector<std::byte>& after, const std::function<double(double, double)>& allowed);
double value_at(DType, const std::byte* data, std::int64_t index);
[[noreturn]] void fail(const Cell&, const std::string& rule, std::int64_t different, std::int64_t compared);

// Compares cos and sin of positions 1, 2, 3, ... with those of long double arithmetic: all rows, or where there are
// many every n-th and the last. They must be correctly rounded. Throws CHECK. Returns the number of pairs compared.
std::int64_t verify_table(const Cell&, const Frequencies&, const Table&);

}  // namespace rotary::cli::bench
