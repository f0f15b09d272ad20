// Watches the other processes of this machine through the operating system.
#pragma once

#include <sys/types.h>

#include <vector>

namespace rotary_torch::parallel {

// Notices at once that a process has ended in any way. Needs Linux 5.3 or newer (pidfd_open); elsewhere it reports
// none.
class Peers {
 public:
  Peers() = default;
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  void watch(int rank, pid_t process);
  std::vector<int> lost() const;  // ranks, rising

 private:
  struct Peer {
    int rank;
    int descriptor;
  };
  std::vector<Peer> peers_;
};

// The namespace of process ids. A process id means the same to two processes if they share it.
unsigned long process_namespace();

}  // namespace rotary_torch::parallel
