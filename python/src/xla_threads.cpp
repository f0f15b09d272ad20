#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "xla_frame.h"

namespace rotary::python::xla {

namespace {

// One run. A task that begins when no part is left touches nothing but this, which it owns too.
struct Run {
  Executor::Body body;
  void* context;
  std::int64_t count, parts;
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> done{0};
  std::mutex sleep;
  std::condition_variable ended;

  std::int64_t begin_of(std::int64_t part) const { return count / parts * part + std::min(part, count % parts); }

  void work() {
    std::int64_t served = 0;
    for (std::int64_t part = next++; part < parts; part = next++, ++served) {
      body(context, begin_of(part), begin_of(part + 1));
    }
    if (served == 0 || (done += served) < parts) return;
    const std::lock_guard<std::mutex> lock(sleep);
    ended.notify_all();
  }

  // For parts that running threads have claimed.
  void wait() {
    std::unique_lock<std::mutex> lock(sleep);
    ended.wait(lock, [this] { return done >= parts; });
  }
};

void serve(void* data) {
  const std::unique_ptr<std::shared_ptr<Run>> run(static_cast<std::shared_ptr<Run>*>(data));
  (*run)->work();
}

}  // namespace

Threads::Threads(const CallFrame& frame) : api_(frame.api), context_(frame.context) {
  const auto has = [this](const void* end) {
    return static_cast<const char*>(end) <= reinterpret_cast<const char*>(api_) + api_->struct_size;
  };
  if (!has(&api_->schedule + 1)) return;
  std::int64_t count = std::max(1U, std::thread::hardware_concurrency());
  if (has(&api_->count_threads + 1)) {
    CountThreads asked{sizeof(CountThreads), nullptr, context_, &count};
    if (ErrorMessage* none = api_->count_threads(&asked); none != nullptr) {
      DestroyError gone{sizeof(DestroyError), nullptr, none};
      api_->destroy_error(&gone);
      count = 1;
    }
  }
  count_ = static_cast<unsigned>(std::clamp<std::int64_t>(count, 1, 1024));
}

bool Threads::schedule(void (*task)(void*), void* data) const {
  Schedule asked{sizeof(Schedule), nullptr, context_, task, data};
  ErrorMessage* refused = api_->schedule(&asked);
  if (refused == nullptr) return true;
  DestroyError gone{sizeof(DestroyError), nullptr, refused};
  api_->destroy_error(&gone);
  return false;
}

void Threads::run(std::int64_t count, std::int64_t grain, Body body, void* context) const {
  if (count <= 0) return;
  const std::int64_t grains = (count - 1) / std::max<std::int64_t>(1, grain) + 1;
  const std::int64_t threads = std::min<std::int64_t>(count_, grains);
  if (threads == 1) return body(context, 0, count);
  const auto run = std::make_shared<Run>();
  run->body = body;
  run->context = context;
  run->count = count;
  run->parts = std::min(grains, 4 * threads);
  for (std::int64_t i = 1; i < threads; ++i) {
    auto owner = std::make_unique<std::shared_ptr<Run>>(run);
    if (!schedule(serve, owner.get())) break;
    owner.release();  // serve() frees it
  }
  run->work();
  run->wait();
}

}  // namespace rotary::python::xla
