// The other processes of this machine, watched by the system rather than by messages.
#pragma once

#include <sys/types.h>

#include <vector>

namespace rotary_torch::parallel {

// Knows at once that a process has ended, however it did. Linux 5.3 or newer (pidfd_open); elsewhere it sees nothing.
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

// What two processes must share for one's process ids to mean the same to the other.
unsigned long process_namespace();

}  // namespace rotary_torch::parallel
