// A call of XLA's foreign function interface, checked: buffers, attributes, threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "rotary/threads.h"
#include "xla_ffi.h"

namespace rotary::python::xla {

// The threads of the XLA client that calls. run() never waits for a task that has not begun.
class Threads final : public Executor {
 public:
  explicit Threads(const CallFrame& frame);
  unsigned concurrency() const noexcept override { return count_; }
  void run(std::int64_t count, std::int64_t grain, Body body, void* context) const override;

 private:
  bool schedule(void (*task)(void*), void* data) const;

  const Api* api_;
  Context* context_;
  unsigned count_ = 1;
};

// The frame must outlive it. All throw rotary::Error, with `operation` in the sentence.
class Call {
 public:
  Call(const CallFrame& frame, const char* operation) : frame_(frame), operation_(operation) {}

  std::int64_t arguments() const noexcept { return frame_.arguments.size; }
  std::int64_t results() const noexcept { return frame_.results.size; }
  const Buffer& argument(std::int64_t at) const { return buffer(frame_.arguments, at); }
  const Buffer& result(std::int64_t at) const { return buffer(frame_.results, at); }

  std::string_view text(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;  // also a bool
  std::span<const std::int64_t> integers(std::string_view name) const;

  [[noreturn]] void refuse(const std::string& sentence) const;  // INTERNAL: rotary/jax.py never asks for it

 private:
  const Buffer& buffer(const Arguments& list, std::int64_t at) const;
  const void* attribute(std::string_view name, AttributeType type) const;

  const CallFrame& frame_;
  const char* operation_;
};

std::string shape_text(const Buffer& buffer);  // "[2, 5, 64]"
std::int64_t elements(const Buffer& buffer) noexcept;

// What every handler does: answers questions about itself, checks versions and sizes, and makes an exception an error.
ErrorMessage* handle(CallFrame* frame, const char* operation, void (*body)(const Call&, const Executor&)) noexcept;

}  // namespace rotary::python::xla
