// walks: in which order should one thread, or two, walk through heads that lie in memory or in a cache? The rotation is
// the simplest there is (half pairing, the row of the table read again from the first-level cache for each head); only
// the order, the number of runs walked at once and the distance of prefetching differ. Nothing of the library is in it.
//   g++ -O2 -std=c++20 -march=native  walks.cpp -o walks && ./walks [--huge-pages]
//   g++ -O2 -std=c++20 -march=haswell walks.cpp -o walks && ./walks
// A line a cell, ns per element (the 20th percentile of rounds taken in turn), of 40 heads: TYPE TOKENS WIDTH NAME NS.
// The names:
//
//   scale K +P       the memory itself, read, multiplied and written as floats: K parts at once, fetched P bytes ahead
//   bthd runs K +P   [tokens, heads, dim]: K parts of the sequence at once, a head of each in turn
//   bhtd runs K +P   [heads, tokens, dim]: K heads at once
//   bhtd tile N      N tokens of one head after the other, the next head's tile fetched meanwhile
//   out, bhtd out    from x to y; "streamed": stores past the cache
//
// In front of a name: 2M: pages of 2 MiB; d64: heads of 64, not 128; 2t: two threads, each with half of the tokens. Few
// tokens fill half of the second-level cache. About three minutes.
#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

struct bf16 {
  std::uint16_t bits;
};
struct f16 {
  std::uint16_t bits;
};

#ifdef __AVX512F__
using Vector = __m512;
constexpr int lanes = 16;
using Narrow = __m256i;
Narrow read(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
Vector load(const float* p) { return _mm512_loadu_ps(p); }
Vector load(const f16* p) { return _mm512_cvtph_ps(read(p)); }
Vector load(const bf16* p) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(read(p)), 16)); }
Narrow narrow(Vector v, f16) { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
Narrow narrow(Vector v, bf16) {
  const __m512i i = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(i, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(i, _mm512_add_epi32(_mm512_set1_epi32(0x7fff), odd));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}
void write(void* p, Narrow v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
void write_past(void* p, Narrow v) { _mm256_stream_si256(static_cast<__m256i*>(p), v); }
void write(float* p, Vector v) { _mm512_storeu_ps(p, v); }
void write_past(float* p, Vector v) { _mm512_stream_ps(p, v); }
Vector first_of(Vector a, Vector b, Vector c, Vector s) { return _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)); }
Vector second_of(Vector a, Vector b, Vector c, Vector s) { return _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)); }
#else
using Vector = __m256;
constexpr int lanes = 8;
using Narrow = __m128i;
Narrow read(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
Vector load(const float* p) { return _mm256_loadu_ps(p); }
Vector load(const f16* p) { return _mm256_cvtph_ps(read(p)); }
Vector load(const bf16* p) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(read(p)), 16)); }
Narrow narrow(Vector v, f16) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
Narrow narrow(Vector v, bf16) {
  const __m256i i = _mm256_castps_si256(v), odd = _mm256_and_si256(_mm256_srli_epi32(i, 16), _mm256_set1_epi32(1));
  const __m256i wide = _mm256_srli_epi32(_mm256_add_epi32(i, _mm256_add_epi32(_mm256_set1_epi32(0x7fff), odd)), 16);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(wide, wide), 0x08));
}
void write(void* p, Narrow v) { _mm_storeu_si128(static_cast<__m128i*>(p), v); }
void write_past(void* p, Narrow v) { _mm_stream_si128(static_cast<__m128i*>(p), v); }
void write(float* p, Vector v) { _mm256_storeu_ps(p, v); }
void write_past(float* p, Vector v) { _mm256_stream_ps(p, v); }
Vector first_of(Vector a, Vector b, Vector c, Vector s) { return _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)); }
Vector second_of(Vector a, Vector b, Vector c, Vector s) { return _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)); }
#endif

template <bool past, class T>
void store(T* p, Vector v) {
  if constexpr (sizeof(T) == 4) {
    past ? write_past(p, v) : write(p, v);
  } else {
    past ? write_past(static_cast<void*>(p), narrow(v, T{})) : write(static_cast<void*>(p), narrow(v, T{}));
  }
}

constexpr int heads = 40;

// The tokens that one thread walks.
struct Part {
  long first, end;
};

template <class T, int dim>
struct Walks {
  const T* x;
  T* y;  // x: in place
  long tokens;
  const float *cosines, *sines;

  // One head of one token; beside it the lines of as many bytes at `next` are fetched, unless that is null.
  template <bool past>
  void rotate(long at, long token, const T* next) const {
    constexpr int half = dim / 2;
    const T* const p = x + at;
    T* const q = y + at;
    const float *c = cosines + token * half, *s = sines + token * half;
    for (int i = 0; i < half; i += lanes) {
      if (next != nullptr && i * sizeof(T) % 64 == 0) {
        _mm_prefetch(reinterpret_cast<const char*>(next + i), _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char*>(next + half + i), _MM_HINT_T0);
      }
      const Vector a = load(p + i), b = load(p + half + i), cos = load(c + i), sin = load(s + i);
      store<past>(q + i, first_of(a, b, cos, sin));
      store<past>(q + half + i, second_of(a, b, cos, sin));
    }
  }
  const T* ahead(long at, int bytes) const {
    return bytes == 0 ? nullptr : x + at + bytes / static_cast<int>(sizeof(T));
  }
  long by_token(long token, int head) const { return (token * heads + head) * dim; }
  long by_head(long token, int head) const { return (head * tokens + token) * dim; }

  template <bool past>
  void token_runs(const Part& part, int runs, int bytes) const {
    const long length = (part.end - part.first) / runs;
    const auto turn = [&](long token, int head) {
      rotate<past>(by_token(token, head), token, ahead(by_token(token, head), bytes));
    };
    for (long i = 0; i < length; ++i) {
      for (int head = 0; head < heads; ++head) {
        for (int run = 0; run < runs; ++run) turn(part.first + run * length + i, head);
      }
    }
    for (long token = part.first + runs * length; token < part.end; ++token) {
      for (int head = 0; head < heads; ++head) turn(token, head);
    }
  }
  template <bool past>
  void head_runs(const Part& part, int runs, int bytes) const {
    for (int first = 0; first < heads; first += runs) {
      for (long token = part.first; token < part.end; ++token) {
        for (int head = first; head < std::min(heads, first + runs); ++head)
          rotate<past>(by_head(token, head), token, ahead(by_head(token, head), bytes));
      }
    }
  }
  template <bool past>
  void tiles(const Part& part, int size) const {
    for (long first = part.first; first < part.end; first += size) {
      for (int head = 0; head < heads; ++head) {
        for (long token = first; token < std::min(part.end, first + size); ++token) {
          const long next =
              head + 1 < heads ? by_head(token, head + 1) : by_head(std::min(part.end - 1, token + size), 0);
          rotate<past>(by_head(token, head), token, x + next);
        }
      }
    }
  }
};

void scale(float* x, long count, int runs, int bytes, float by) {
  const long length = count / runs / 16 * 16;
  for (long i = 0; i < length; i += 16) {
    for (int run = 0; run < runs; ++run) {
      float* const p = x + run * length + i;
      if (bytes != 0) _mm_prefetch(reinterpret_cast<const char*>(p) + bytes, _MM_HINT_T0);
      for (int k = 0; k < 16; k += lanes) write(p + k, load(p + k) * by);
    }
  }
}

class Memory {
 public:
  Memory(std::size_t bytes, bool huge) : bytes_(bytes + 65536) {  // what is fetched ahead of the end is there
    begin_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin_ == MAP_FAILED) std::abort();
    madvise(begin_, bytes_, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    std::memset(begin_, 0x3c, bytes_);  // a number near 0.01 as f32 and bf16, near 1 as f16
  }
  ~Memory() { munmap(begin_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* begin() const { return begin_; }

 private:
  std::size_t bytes_;
  void* begin_;
};

// A second thread that takes part in each run.
class Both {
 public:
  template <class Work>
  void run(const Work& work) {
    work_ = work;
    gate_.arrive_and_wait();
    work(0);
    gate_.arrive_and_wait();
  }
  ~Both() {
    work_ = nullptr;
    gate_.arrive_and_wait();
    other_.join();
  }

 private:
  std::function<void(int)> work_;
  std::barrier<> gate_{2};
  std::thread other_{[this] {
    for (;;) {
      gate_.arrive_and_wait();
      if (!work_) return;
      work_(1);
      gate_.arrive_and_wait();
    }
  }};
};

struct Case {
  std::string name;
  std::function<void(const Part&)> run;
  std::vector<double> ns = {};
};

// All cells of one type, number of tokens and size of heads.
template <class T, int dim>
class Table {
 public:
  Table(bool huge_pages, const char* type, long tokens, bool two_threads = false)
      : huge_pages_(huge_pages),
        type_(type),
        tokens_(tokens),
        two_threads_(two_threads),
        count_(tokens * heads * dim),
        x_(count_ * sizeof(T), huge_pages),
        y_(count_ * sizeof(T), huge_pages),
        cosines_(tokens * dim / 2, 0.8f),
        sines_(tokens * dim / 2, 0.6f) {}

  void measure(double seconds) {
    add_in_place();
    add_out_of_place();
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point begin) {
      return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    const Clock::time_point start = Clock::now();
    const int calls = count_ < 1000000 ? 40 : 1;  // of what lies in a cache
    for (int round = -1; round < 5 || since(start) < seconds; ++round) {
      for (Case& each : cases_) {
        const Clock::time_point begin = Clock::now();
        for (int call = 0; call < calls; ++call) run(each);
        const double took = since(begin);
        if (round >= 0) each.ns.push_back(1e9 * took / calls / static_cast<double>(count_));
      }
    }
    for (Case& each : cases_) {
      std::sort(each.ns.begin(), each.ns.end());
      std::printf("%s %ld %d-bit  %-18s %.3f\n", type_, tokens_, lanes * 32, (prefix() + each.name).c_str(),
                  each.ns[each.ns.size() / 5]);
    }
    std::fflush(stdout);
  }

 private:
  std::string prefix() const {
    return std::string(huge_pages_ ? "2M " : "") + (dim == 128 ? "" : "d64 ") + (two_threads_ ? "2t " : "");
  }

  void run(const Case& each) {
    if (!two_threads_) return each.run({0, tokens_});
    static Both both;
    both.run([&](int k) { each.run({k * tokens_ / 2, (k + 1) * tokens_ / 2}); });
  }

  void add(const std::string& name, std::function<void(const Part&)> run) { cases_.push_back({name, std::move(run)}); }
  static std::string text(const char* name, int runs, int bytes) {
    return name + std::to_string(runs) + " +" + std::to_string(bytes);
  }

  void add_in_place() {
    static volatile float by = 1;  // which the compiler must not know
    T* const x = static_cast<T*>(x_.begin());
    const Walks<T, dim> w{x, x, tokens_, cosines_.data(), sines_.data()};
    for (const int bytes : {0, 512, 1024, 4096}) {
      for (const int runs : {1, 4, 16}) {
        if (bytes == 512) continue;
        add(text("scale ", runs, bytes), [=](const Part& part) {
          const long floats = heads * dim * static_cast<long>(sizeof(T)) / 4;  // of a token
          scale(reinterpret_cast<float*>(x) + part.first * floats, (part.end - part.first) * floats, runs, bytes, by);
        });
      }
      for (const int runs : {1, 2, 3, 4, 8})
        add(text("bthd runs ", runs, bytes), [=](const Part& p) { w.template token_runs<0>(p, runs, bytes); });
      for (const int runs : {1, 2, 3, 4, 8, 16})
        add(text("bhtd runs ", runs, bytes), [=](const Part& p) { w.template head_runs<0>(p, runs, bytes); });
    }
    for (const int size : {8, 16, 32, 64})
      add("bhtd tile " + std::to_string(size), [=](const Part& p) { w.template tiles<0>(p, size); });
  }

  void add_out_of_place() {
    const Walks<T, dim> w{static_cast<T*>(x_.begin()), static_cast<T*>(y_.begin()), tokens_, cosines_.data(),
                          sines_.data()};
    const auto add_past = [this](const std::string& name, const auto& walk) {
      add(name, [walk](const Part& part) {
        walk(part);
        _mm_sfence();
      });
    };
    if (!two_threads_) add("out memcpy", [w, this](const Part&) { std::memcpy(w.y, w.x, count_ * sizeof(T)); });
    for (const int runs : {1, 2, 4, 8}) {
      for (const int bytes : {0, 1024, 4096}) {
        if (runs == 1)
          add(text("out runs ", runs, bytes), [=](const Part& p) { w.template token_runs<0>(p, runs, bytes); });
        add_past(text("out streamed ", runs, bytes), [=](const Part& p) { w.template token_runs<1>(p, runs, bytes); });
        add_past(text("bhtd out streamed ", runs, bytes),
                 [=](const Part& p) { w.template head_runs<1>(p, runs, bytes); });
      }
    }
    for (const int size : {16, 32})
      add_past("bhtd out streamed tile " + std::to_string(size), [=](const Part& p) { w.template tiles<1>(p, size); });
  }

  const bool huge_pages_;
  const char* type_;
  const long tokens_;
  const bool two_threads_;
  const long count_;
  const Memory x_, y_;
  const std::vector<float> cosines_, sines_;
  std::vector<Case> cases_;
};

// more: 8192 tokens, heads of 64 and two threads too.
template <class T>
void measure_type(bool huge_pages, const char* type, bool more) {
  constexpr double seconds = 13;
  const long cache = std::max(sysconf(_SC_LEVEL2_CACHE_SIZE), 256L * 1024);
  const long few = std::max(8L, cache / 2 / static_cast<long>(heads * 128 * sizeof(T)) / 8 * 8);
  Table<T, 128>(huge_pages, type, few).measure(0.3 * seconds);
  Table<T, 128>(huge_pages, type, 2048).measure(seconds);
  if (!more) return;
  Table<T, 128>(huge_pages, type, 8192).measure(seconds);
  Table<T, 64>(huge_pages, type, 2048).measure(seconds);
  cpu_set_t ours;  // one processor, as by taskset, has no place for two threads
  if (sched_getaffinity(0, sizeof ours, &ours) == 0 && CPU_COUNT(&ours) > 1)
    Table<T, 128>(huge_pages, type, 2048, true).measure(seconds);
}

}  // namespace

int main(int argc, char** argv) {
  const bool huge_pages = argc == 2 && std::string(argv[1]) == "--huge-pages";
  if (argc > 1 && !huge_pages) {
    std::fprintf(stderr, "usage: walks [--huge-pages]\n");
    return 2;
  }
  measure_type<float>(huge_pages, "f32", true);
  measure_type<bf16>(huge_pages, "bf16", true);
  measure_type<f16>(huge_pages, "f16", false);
}
