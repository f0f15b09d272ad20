#include "fiber.h"

#include <sys/mman.h>

#include <cstdlib>

#include "sanitizer.h"

namespace gpu_emulator {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t stack_bytes = 256 * 1024;
// Global, because run_grid holds a lock: only one grid runs at a time.
Fiber* running;  // the fiber that a change switches to
Fiber* left;     // the fiber that it leaves

}  // namespace

#if defined(__x86_64__)
// ucontext would make two system calls per change.
extern "C" void gpu_emulator_change(void** from, void* to);
asm(R"(
.text
.globl gpu_emulator_change
.hidden gpu_emulator_change
.type gpu_emulator_change, @function
gpu_emulator_change:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size gpu_emulator_change, .-gpu_emulator_change
)");
#endif

Fiber::Fiber() = default;

Fiber::Fiber(void (*entry)(Fiber&)) : entry_(entry) {
  void* memory = mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) std::abort();
  memory_ = static_cast<std::byte*>(memory);
  bottom_ = memory_ + page;
  size_ = stack_bytes;
#if defined(__x86_64__)
  // Stacks whose tops have the same offset in a page would compete for a few cache sets.
  static std::size_t fibers = 0;
  auto* top = reinterpret_cast<void**>(memory_ + page + stack_bytes - fibers++ % 32 * 128);
  *--top = nullptr;  // the return address of run(); aligns the stack as the ABI requires on entry
  *--top = reinterpret_cast<void*>(&Fiber::run);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  stack_pointer_ = top;
#else
  getcontext(&context_);
  context_.uc_stack.ss_sp = memory_ + page;
  context_.uc_stack.ss_size = stack_bytes;
  makecontext(&context_, &Fiber::run, 0);
#endif
}

Fiber::~Fiber() {
  if (!memory_) return;
  unpoison(memory_ + page, stack_bytes);
  munmap(memory_, page + stack_bytes);
}

void Fiber::change(Fiber& from, Fiber& to) {
  running = &to;
  left = &from;
#ifdef GPU_EMULATOR_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack_, to.bottom_, to.size_);
#endif
#if defined(__x86_64__)
  gpu_emulator_change(&from.stack_pointer_, to.stack_pointer_);
#else
  swapcontext(&from.context_, &to.context_);
#endif
  running->arrived();
}

void Fiber::arrived() {
#ifdef GPU_EMULATOR_ASAN
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &size);
  if (!left->memory_) {  // the caller's own stack
    left->bottom_ = bottom;
    left->size_ = size;
  }
#endif
}

void Fiber::run() {
  Fiber& self = *running;
  self.arrived();
  self.entry_(self);
  std::abort();
}

}  // namespace gpu_emulator
