// Forced into every file of the page's program (-include): names that libc++ and libc lack for wasm32-wasi, where there
// is one thread and no signal.
#pragma once

#include <signal.h>

#include <mutex>

namespace std {
struct mutex {
  void lock() {}
  void unlock() {}
};
using recursive_mutex = mutex;
}  // namespace std

struct sigaction {
  void (*sa_handler)(int);
  int sa_flags;
};
inline int sigaction(int, const struct sigaction*, struct sigaction*) { return -1; }

struct winsize {  // which ioctl never fills
  unsigned short ws_col;
};
constexpr int TIOCGWINSZ = 0;
