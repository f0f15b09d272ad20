// A libnccl.so.2 without GPUs: writes down how it is called, and sums as if every rank had given the same values.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct UniqueId {
  char bytes[128];
};
struct Comm {
  int ranks;
};

std::string log_text;
std::string ids_seen;
bool lost = false;

int result(const char* call) {
  const char* failing = std::getenv("FAKE_NCCL_FAILS");
  return failing != nullptr && std::strcmp(failing, call) == 0 ? 5 : 0;
}

void note(const std::string& line) { log_text += line + "\n"; }

}  // namespace

extern "C" {

const char* fake_nccl_log() { return log_text.c_str(); }
const char* fake_nccl_id() { return ids_seen.c_str(); }
void fake_nccl_lose(bool now) { lost = now; }

int ncclGetUniqueId(UniqueId* id) {
  note("ncclGetUniqueId");
  for (std::size_t i = 0; i < sizeof id->bytes; ++i) {
    id->bytes[i] = static_cast<char>('a' + (static_cast<std::size_t>(getpid()) * 7 + i * i) % 26);
  }
  return result("ncclGetUniqueId");
}

int ncclCommInitRank(Comm** comm, int ranks, UniqueId id, int rank) {
  note("ncclCommInitRank " + std::to_string(rank) + " of " + std::to_string(ranks));
  ids_seen.assign(id.bytes, sizeof id.bytes);
  *comm = new Comm{ranks};
  return result("ncclCommInitRank");
}

int ncclCommAbort(Comm* comm) {
  note("ncclCommAbort");
  delete comm;
  return 0;
}

int ncclCommGetAsyncError(Comm* /*comm*/, int* error) {
  *error = lost ? 6 : 0;
  return 0;
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int operation, Comm* comm, void* stream) {
  note("ncclAllReduce " + std::to_string(count) + " of type " + std::to_string(type) + " by " +
       std::to_string(operation) + " on stream " + std::to_string(reinterpret_cast<std::uintptr_t>(stream)));
  for (std::size_t i = 0; i < count; ++i) {
    if (type == 7) static_cast<float*>(to)[i] = static_cast<const float*>(from)[i] * static_cast<float>(comm->ranks);
    if (type == 4) static_cast<std::int64_t*>(to)[i] = static_cast<const std::int64_t*>(from)[i] * comm->ranks;
  }
  return result("ncclAllReduce");
}

int ncclBroadcast(const void* /*from*/, void* /*to*/, std::size_t count, int type, int root, Comm* /*comm*/,
                  void* stream) {
  note("ncclBroadcast " + std::to_string(count) + " of type " + std::to_string(type) + " from " + std::to_string(root) +
       " on stream " + std::to_string(reinterpret_cast<std::uintptr_t>(stream)));
  return result("ncclBroadcast");
}

const char* ncclGetErrorString(int error) { return error == 6 ? "remote process exited" : "invalid usage"; }
const char* ncclGetLastError(Comm* /*comm*/) { return "the fake was told to fail"; }
}
