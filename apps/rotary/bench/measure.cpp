#include "measure.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace rotary::cli::bench {

using namespace rotary::detail;

namespace {

int runs_per_sample(const Call& call, double least) {
  constexpr int most = 1 << 20;
  int runs = 1;
  const auto repeat = [&] {
    for (int i = 0; i < runs; ++i) call();
  };
  while (runs < most && seconds_of(repeat) < least) runs *= 2;
  return runs;
}

}  // namespace

double Result::ns_per_element() const { return seconds * 1e9 / static_cast<double>(elements(cell)); }
double Result::gb_per_s() const { return static_cast<double>(bytes(cell)) * 1e-9 / seconds; }
double Result::ceiling_gb_per_s() const { return static_cast<double>(bytes(cell)) * 1e-9 / ceiling_seconds; }
double Result::percent_of_ceiling() const { return 100 * ceiling_seconds / seconds; }

Medians median_seconds(const std::vector<Call>& calls, const Pace& pace, bool warm_up) {
  const SampleLimits limits = pace.rounds > 0 ? SampleLimits{pace.rounds, pace.rounds, pace.rounds}
                                              : SampleLimits{.least = 7, .least_slow = 3, .most = 2001};
  std::vector<int> runs;
  for (const Call& call : calls) runs.push_back(runs_per_sample(call, pace.sample));
  return medians_in_turn(calls.size(), pace.seconds, limits, [&](std::size_t i) {
    if (i == 0 && pace.rest > 0) std::this_thread::sleep_for(std::chrono::duration<double>(pace.rest));
    if (warm_up) calls[i]();
    return seconds_of([&] {
             for (int run = 0; run < runs[i]; ++run) calls[i]();
           }) /
           runs[i];
  });
}

void fill(const ReadyCell& ready, const Tensors& at) {
  const auto repeat = [&ready](std::byte* to, std::size_t bytes, const std::vector<std::byte>& values) {
    for (std::size_t done = 0; done < bytes; done += values.size())
      ready.write(to + done, values.data(), std::min(values.size(), bytes - done));
  };
  if (at.out != at.in) repeat(at.out, at.out_bytes, std::vector<std::byte>(std::size_t{1} << 20, std::byte{0xee}));
  repeat(at.in, at.in_bytes, fill_pattern(ready.cell.dtype));
}

Result measure(ReadyCell& ready, const Pace& pace) {
  Result result{.cell = ready.cell};
  result.verified = verify(ready);
  for (const Tensors& set : ready.sets) fill(ready, set);
  ready.time(pace, result);
  return result;
}

}  // namespace rotary::cli::bench
