// Median times.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace rotary::cli {

double median(std::vector<double>& samples);  // not empty; changes their order

// Runs the works in turn, so that a slow moment of the machine hits all of them; one unmeasured round first.
std::vector<double> median_microseconds(int runs, const std::vector<std::function<void()>>& works);

// memcpy that the compiler cannot leave out.
void copy_bytes(std::vector<std::byte>& to, const std::vector<std::byte>& from);

}  // namespace rotary::cli
