// Forced into every file of the page's program (-include): names that libc++ and libc lack for wasm32-wasi, where there
// is one thread and no signal.
#pragma once

#ifdef __cplusplus
#include <signal.h>

#include <mutex>

#if !_LIBCPP_HAS_THREADS
namespace std {
struct mutex {
  void lock() {}
  void unlock() {}
  bool try_lock() { return true; }
};
using recursive_mutex = mutex;
}  // namespace std
#endif

struct sigaction {
  void (*sa_handler)(int);
  int sa_flags;
};
inline int sigaction(int, const struct sigaction*, struct sigaction*) { return -1; }

struct winsize {  // which ioctl never fills
  unsigned short ws_col;
};
constexpr int TIOCGWINSZ = 0;
#endif
