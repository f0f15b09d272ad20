// For the tests of operations on the device: memory there between guards, tables, and what to skip where no device is.
// The same tests run on the emulator (ROTARY_GPU_EMULATED) and on a GPU.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/tests/support/heads.h"
#include "kernels/kernels.h"
#include "rotary/gpu.h"

#ifdef ROTARY_GPU_EMULATED
#include "gpu/tests/shim/emulator.h"
#endif

namespace rotary::tests {

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

// Bytes of the device's memory between two guards: whoever writes beyond them fails the test. On the emulator every
// second one ends where its allocation ends, so that the address sanitizer sees reads too.
class Device {
 public:
  explicit Device(std::size_t bytes, std::size_t misaligned = 0) : bytes_(bytes), before_(guard + misaligned) {
    behind_ = ends_sharply() ? 0 : guard;
    const Bytes all = patterned(before_ + bytes_ + behind_);
    check(cudaMalloc(&memory_, std::max<std::size_t>(1, all.size())));
    check(cudaMemcpy(memory_, all.data(), all.size(), cudaMemcpyHostToDevice));
  }
  Device(const void* data, std::size_t bytes, std::size_t misaligned = 0) : Device(bytes, misaligned) { put(data); }
  template <class T>
  explicit Device(const std::vector<T>& values, std::size_t misaligned = 0)
      : Device(values.data(), values.size() * sizeof(T), misaligned) {}
  Device(Device&& other) noexcept
      : bytes_(other.bytes_), before_(other.before_), behind_(other.behind_), memory_(other.memory_) {
    other.memory_ = nullptr;
  }
  Device& operator=(Device&&) = delete;
  ~Device() {
    if (memory_ == nullptr) return;
    EXPECT_TRUE(intact()) << "a guard around " << bytes_ << " bytes has changed";
    cudaFree(memory_);
  }

  std::byte* data() const { return static_cast<std::byte*>(memory_) + before_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }
  void put(const void* host) const {
    if (bytes_ > 0) check(cudaMemcpy(data(), host, bytes_, cudaMemcpyHostToDevice));
  }
  void put(const Bytes& host) const {
    if (host.size() != bytes_) throw std::logic_error("another size");
    put(host.data());
  }
  Bytes get() const {
    Bytes host(bytes_);
    if (bytes_ > 0) check(cudaMemcpy(host.data(), data(), bytes_, cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  static constexpr std::size_t guard = 512;
  static bool ends_sharply() {
#ifdef ROTARY_GPU_EMULATED
    static unsigned count = 0;
    return ++count % 2 == 0;
#else
    return false;
#endif
  }
  bool intact() const {
    Bytes all(before_ + bytes_ + behind_);
    if (cudaMemcpy(all.data(), memory_, all.size(), cudaMemcpyDeviceToHost) != cudaSuccess) return false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((i < before_ || i >= before_ + bytes_) && all[i] != pattern(i)) return false;
    }
    return true;
  }

  std::size_t bytes_ = 0;
  std::size_t before_ = 0;
  std::size_t behind_ = 0;
  void* memory_ = nullptr;
};

// Memory for offsets that need more than 32 bits; little of it is touched. data(): null where there is none.
class Sparse {
 public:
  explicit Sparse(std::size_t bytes) : bytes_(bytes) {
#ifdef ROTARY_GPU_EMULATED
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) memory_ = nullptr;
#else
    if (cudaMalloc(&memory_, bytes) != cudaSuccess) {
      memory_ = nullptr;
      cudaGetLastError();
    }
#endif
  }
  ~Sparse() {
    if (memory_ == nullptr) return;
#ifdef ROTARY_GPU_EMULATED
    munmap(memory_, bytes_);
#else
    cudaFree(memory_);
#endif
  }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;
  void read(void* to, std::int64_t from, std::size_t bytes) const {
#ifdef ROTARY_GPU_EMULATED
    std::memcpy(to, data() + from, bytes);
#else
    check(cudaMemcpy(to, data() + from, bytes, cudaMemcpyDeviceToHost));
#endif
  }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  std::size_t bytes_;
  void* memory_ = nullptr;
};

// Room for the elements of a layout, beginning `elements` elements beyond an aligned address.
inline Device device_for(const Layout& l, DType dtype, int elements = 0) {
  return Device(bytes_of(l, dtype), static_cast<std::size_t>(elements) * size_of(dtype));
}
inline Device device_for(const Layout& l, DType dtype, const Bytes& data, int elements = 0) {
  return Device(data.data(), bytes_of(l, dtype), static_cast<std::size_t>(elements) * size_of(dtype));
}

inline std::string words(const Layout& l, DType dtype) {
  std::string text = name(dtype);
  for (const std::int64_t n : {l.batch, l.tokens, l.heads, std::int64_t{l.head_dim}}) text += " " + std::to_string(n);
  text += ", strides";
  for (const std::int64_t n : {l.batch_stride, l.token_stride, l.head_stride}) text += " " + std::to_string(n);
  return text;
}

// The frequencies with that pairing.
inline Frequencies with(Frequencies f, Pairing pairing) {
  f.pairing = pairing;
  return f;
}

inline constexpr std::array roundings{Rounding::f32, Rounding::f16, Rounding::bf16};

// A temporary as an lvalue, until the end of the full expression: gpu::Rotation takes no temporary table.
template <class T>
T& lvalue(T&& temporary) {
  return temporary;
}

inline gpu::Table upload(const Table& t) {
  gpu::Table table(t.cos(), t.sin(), t.pairs(), t.pairing(), t.batch(), nullptr, t.head_rows());
  return table;
}

// The same as a view of memory that begins anywhere.
struct Borrowed {
  Borrowed(Random& random, const Table& t)
      : cos(t.cos().data(), t.cos().size_bytes(), 4 * (random() % 5)),
        sin(t.sin().data(), t.sin().size_bytes(), 4 * (random() % 5)),
        table(gpu::Table::borrow(cos.as<const float>(), sin.as<const float>(), t.pairs(), t.pairing(), t.tokens(),
                                 t.batch(), t.head_rows())) {}
  Device cos, sin;
  gpu::Table table;
};

// NaNs are equal to others.
inline ::testing::AssertionResult same_rows(const Table& got, const Table& wanted) {
  const auto shape = [](const Table& t) {
    return std::array<std::int64_t, 5>{static_cast<int>(t.pairing()), t.pairs(), t.batch(), t.head_rows(), t.tokens()};
  };
  if (shape(got) != shape(wanted)) return ::testing::AssertionFailure() << "another shape";
  const auto count = std::ssize(wanted.cos());
  const std::vector<bool> all(wanted.cos().size(), true);
  if (auto cos = same(got.cos().data(), wanted.cos().data(), DType::f32, count, all); !cos) return cos << " (cos)";
  return same(got.sin().data(), wanted.sin().data(), DType::f32, count, all) << " (sin)";
}

// Draws the order of threads and blocks, whether they run late, and whether launches overlap: none of it may matter.
inline void order_threads([[maybe_unused]] Random& random) {
#ifdef ROTARY_GPU_EMULATED
  using gpu_emulator::Order;
  const Order order = std::array{Order::forward, Order::backward, Order::shuffled}[random() % 3];
  gpu_emulator::set_order(order, random());
  const std::uint64_t drawn = random();
  gpu_emulator::set_deferred(drawn % 2 == 0);
  gpu::overlapped_launches() = drawn / 2 % 2 == 0;
#endif
}

// A number of elements that do not turn.
inline int tail(Random& random) { return std::array{0, 0, 0, 8, 16, 1, 3, 6}[random() % 8]; }

inline int misalignment(Random& random) { return std::array{0, 0, 0, 1, 2, 3, 4, 7, 8}[random() % 9]; }

// ---- a test that needs a device ----

template <class Base>
class OnDevice : public Base {
 protected:
  void SetUp() override {
    if (gpu::devices() == 0) GTEST_SKIP() << "no CUDA device: the emulated twin of this test runs everywhere";
#ifdef ROTARY_GPU_EMULATED
    gpu_emulator::set_order(gpu_emulator::Order::forward);
    gpu_emulator::set_deferred(false);
    gpu::overlapped_launches() = false;
#endif
  }
};
using Gpu = OnDevice<::testing::Test>;
template <class Parameter>
using GpuWith = OnDevice<::testing::TestWithParam<Parameter>>;

}  // namespace rotary::tests
