// Compares the result of a cell with the reference bit for bit, before it is timed.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cell.h"
#include "memory.h"
#include "rotary/rotary.h"

namespace rotary::cli::bench {

// Fills the memory, runs work once and compares q and k with reference::rotate of the same values: every token, or the
// first, middle and last tokens if there are many elements. Throws CHECK. Returns the number of elements compared.
std::int64_t verify(const Cell&, const Places&, const Table&, const std::function<void()>& work);

// The same for memory that the host cannot access, by these steps.
struct VerifySteps {
  std::function<void()> fill;  // writes the inputs, and a pattern that cannot be a result to the outputs
  std::function<void()> work;
  std::function<void(void* to, const void* from, std::size_t bytes)> read;  // waits for the work first
};
// Without a table (Cell::with_table) cos and sin may be off by up to 1.1e-7.
std::int64_t verify(const Cell&, const Places&, const Table&, const VerifySteps&);

// ---- building blocks ----

struct Row {
  std::int64_t batch;
  std::int64_t token;
};
// The rows to compare: all, or some from the beginning, the middle and the end if there are many elements.
std::vector<Row> chosen_rows(const Cell&);
// The heads of those rows, contiguous.
std::vector<std::byte> gather(const Heads&, const std::vector<Row>&, const VerifySteps&);
Table table_of(const std::vector<Row>&, const Table&);
// Counts elements of `after` that are not the result of the cell for `before`; both are gathered heads.
std::int64_t count_rotated(const Cell&, std::int64_t heads, const Table&, const std::vector<std::byte>& before,
                           const std::vector<std::byte>& after);
// Counts elements of `after`, gathered heads, whose distance from the rotated element r in double arithmetic exceeds
// allowed(|a| + |b|, r), where (a, b) is the pair before the rotation. before(i) is element i of the gathered heads.
// NaN counts; elements behind the rotated block are not examined.
std::int64_t count_far(const Cell&, std::int64_t heads, const Table&, const std::function<double(std::int64_t)>& before,
                       const std::vector<std::byte>& after, const std::function<double(double, double)>& allowed);
double value_at(DType, const std::byte* data, std::int64_t index);
[[noreturn]] void fail(const Cell&, const std::string& rule, std::int64_t different, std::int64_t compared);

// Checks that cos and sin of positions 1, 2, 3, ... are correctly rounded, by long double arithmetic: all rows, or if
// there are many every n-th and the last. Throws CHECK. Returns the number of pairs compared.
std::int64_t verify_table(const Cell&, const Frequencies&, const Table&);

}  // namespace rotary::cli::bench
