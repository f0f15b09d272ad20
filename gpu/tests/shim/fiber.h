// Stacks between which one OS thread switches.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace gpu_emulator {

class Fiber {
 public:
  Fiber();                       // the caller's own stack
  Fiber(void (*entry)(Fiber&));  // entry never returns
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();
  // Switches from the running fiber `from` to `to`; returns when something switches back.
  static void change(Fiber& from, Fiber& to);

 private:
  static void run();
  void arrived();
  void (*entry_)(Fiber&) = nullptr;
  std::byte* memory_ = nullptr;  // a guard page below the stack
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
  [[maybe_unused]] void* fake_stack_ = nullptr;  // AddressSanitizer's
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_ = {};
#endif
};

}  // namespace gpu_emulator
