#include "rotary_torch/transport/processes.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace rotary_torch::parallel {

Peers::~Peers() {
  for (const Peer& peer : peers_) close(peer.descriptor);
}

void Peers::watch([[maybe_unused]] int rank, [[maybe_unused]] pid_t process) {
#ifdef SYS_pidfd_open
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (descriptor < 0) return;
  peers_.push_back({rank, descriptor});
  std::sort(peers_.begin(), peers_.end(), [](const Peer& a, const Peer& b) { return a.rank < b.rank; });
#endif
}

std::vector<int> Peers::lost() const {
  std::vector<int> ranks;
  for (const Peer& peer : peers_) {
    pollfd ended{peer.descriptor, POLLIN, 0};  // readable once the process has ended
    if (poll(&ended, 1, 0) == 1 && (ended.revents & POLLIN) != 0) ranks.push_back(peer.rank);
  }
  return ranks;
}

unsigned long process_namespace() {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? static_cast<unsigned long>(status.st_ino) : 0;
}

}  // namespace rotary_torch::parallel
