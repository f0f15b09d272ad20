// A decode loop with a window and attention sinks (StreamingLLM, arXiv 2309.17453): the first tokens stay, and the
// newest of the others. Keys of the window keep their positions, since only distances count; the sinks move on with the
// window, by a table between the place where they were rotated and the one where they are wanted. Then the error of
// repeated shifts.
//   g++ -std=c++20 sliding_window.cpp $(pkg-config --cflags --libs rotary) -o sliding_window
#include <rotary/rotary.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <span>
#include <vector>

namespace {

constexpr int head_dim = 128;
constexpr std::int64_t sinks = 4, window = 64, tokens = 5000;

using Vector = std::vector<float>;

Vector random_keys(std::int64_t count) {
  Vector keys(static_cast<std::size_t>(count) * head_dim);
  std::mt19937 random(1);
  for (float& x : keys) x = std::uniform_real_distribution<float>(-1, 1)(random);
  return keys;
}

// Keys [first, first + count) of a tensor of one head.
rotary::Heads keys_of(Vector& keys, std::int64_t first, std::int64_t count) {
  return rotary::heads(std::span(keys).subspan(static_cast<std::size_t>(first) * head_dim),
                       rotary::thd(count, 1, head_dim));
}

double score(const Vector& q, const Vector& keys, std::int64_t at) {
  double sum = 0;
  for (std::size_t d = 0; d < head_dim; ++d)
    sum += static_cast<double>(q[d]) * static_cast<double>(keys[static_cast<std::size_t>(at) * head_dim + d]);
  return sum;
}

// The largest difference of a score between the loop's cache and one that is rotated anew at every step.
double run(const rotary::Frequencies& f) {
  const Vector raw = random_keys(tokens);
  Vector cache(static_cast<std::size_t>(sinks + window) * head_dim), stored(sinks * head_dim);
  rotary::Table there;
  double worst = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    // The key of token t, rotated once, over the oldest of the window.
    Vector key(raw.begin() + t * head_dim, raw.begin() + (t + 1) * head_dim), q = key;
    rotary::rotate(keys_of(key, 0, 1), rotary::Table(f, t));
    const std::int64_t slot = t < sinks ? t : sinks + (t - sinks) % window;
    std::copy(key.begin(), key.end(), cache.begin() + slot * head_dim);
    if (t < sinks) std::copy(key.begin(), key.end(), stored.begin() + slot * head_dim);
    if (t < sinks + window) continue;

    // The sinks end where the window begins. Always from what was stored, so that roundings do not add up.
    const std::int64_t moved = t - window + 1 - sinks;
    Vector now = stored;
    there.assign_between(f, rotary::positions(0, sinks), f, rotary::positions(moved, sinks));
    rotary::rotate(keys_of(now, 0, sinks), there);
    std::copy(now.begin(), now.end(), cache.begin());

    rotary::rotate(keys_of(q, 0, 1), rotary::Table(f, t));
    Vector fresh(raw.begin(), raw.begin() + sinks * head_dim);
    rotary::rotate(keys_of(fresh, 0, sinks), rotary::Table(f, rotary::positions(moved, sinks)));
    for (std::int64_t s = 0; s < sinks; ++s)
      worst = std::max(worst, std::fabs(score(q, cache, s) - score(q, fresh, s)));
  }
  return worst;
}

void store(float x, float& to) { to = x; }
void store(float x, rotary::f16& to) { to = rotary::to_f16(x); }
void store(float x, rotary::bf16& to) { to = rotary::to_bf16(x); }
float loaded(float x) { return x; }
template <class T>
float loaded(T x) {
  return rotary::to_float(x);
}

// The largest error of keys in [-1, 1] of a type after shifts by one position, beside a key rotated once.
template <class T>
void drift(const rotary::Frequencies& f, const char* name) {
  constexpr std::int64_t keys = 256, far = 4096;
  const Vector raw = random_keys(keys);
  Vector exact = raw;
  const auto layout = rotary::bthd(keys, 1, 1, head_dim);  // a batch shares the one row of a table
  const rotary::Table back = rotary::between(f, 1, f, 0);
  std::vector<T> shifted(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) store(raw[i], shifted[i]);
  rotary::rotate(rotary::heads(std::span(shifted), layout), rotary::Table(f, far));
  std::printf("%-4s", name);
  for (std::int64_t done = 0, next = 1; next <= 1000; next *= 10) {
    for (; done < next; ++done) rotary::rotate(rotary::heads(std::span(shifted), layout), back);
    exact = raw;
    rotary::rotate(rotary::heads(std::span(exact), layout), rotary::Table(f, far - done));
    float worst = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, std::fabs(loaded(shifted[i]) - exact[i]));
    std::printf("  %8.1e", static_cast<double>(worst));
  }
  std::printf("\n");
}

}  // namespace

int main() {
  const rotary::Frequencies f =
      rotary::frequencies({.head_dim = head_dim, .base = 500000, .pairing = rotary::Pairing::half});
  const double worst = run(f);
  std::printf("scores of the sinks beside a fresh cache: %.1e at most\n\n", worst);
  std::printf("error after shifts by 1, each of the result before\n        1        10       100      1000\n");
  drift<float>(f, "f32");
  drift<rotary::f16>(f, "f16");
  drift<rotary::bf16>(f, "bf16");
  return worst < 1e-5 ? 0 : 1;
}
