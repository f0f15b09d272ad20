// A disk that fails and a process that ends, at every system call of every command that writes: afterwards each output
// is the old one or the whole new one, exit status 0 means the new one, and only a killed run leaves a temporary.
#include "cli/tests/run.h"

#if defined(__linux__) && defined(__x86_64__)
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>

namespace rotary::cli_tests {
namespace {

namespace fs = std::filesystem;

enum Fault : unsigned { none = 0, eio = 1, enospc = 2, eintr = 4, cut = 8, ended = 16, killed = 32 };

// The faults that a call can meet, by its manual page. A call that changes the disk can be the last of its run.
struct SystemCall {
  unsigned long long number;
  const char* name;
  int path;  // the argument that is a path; -1: none
  unsigned faults;
};
constexpr unsigned ending = ended | killed;
constexpr SystemCall system_calls[] = {
    {SYS_openat, "open to read", 1, eio | eintr},
    {SYS_openat, "open a folder", 1, eio},  // the C library repeats no interrupted opendir
    {SYS_openat, "open to write", 1, eio | enospc | eintr | ending},
    {SYS_read, "read", -1, eio | eintr},
    {SYS_pread64, "pread", -1, eio | eintr | cut},
    {SYS_write, "write", -1, eio | enospc | eintr | cut | ending},
    {SYS_writev, "writev", -1, eio | enospc | eintr | ending},
    {SYS_pwrite64, "pwrite", -1, eio | enospc | eintr | cut | ending},
    {SYS_ftruncate, "ftruncate", -1, eio | eintr | ending},
    {SYS_fsync, "fsync", -1, eio | enospc | eintr | ending},
    {SYS_close, "close", -1, eio | enospc | eintr},
    {SYS_rename, "rename", 0, eio | enospc | ending},
    {SYS_mkdir, "mkdir", 0, eio | enospc | ending},
    {SYS_rmdir, "rmdir", 0, eio | ending},
    {SYS_unlink, "unlink", 0, eio | ending},
    {SYS_unlinkat, "unlinkat", 1, eio | ending},
    {SYS_fchmod, "fchmod", -1, eio | eintr | ending},
    {SYS_fchmodat, "fchmodat", 1, eio | ending},
    {SYS_newfstatat, "stat", 1, eio},
    {SYS_readlink, "readlink", 0, eio},
    {SYS_getdents64, "getdents", -1, eio},
    {SYS_statfs, "statfs", 0, eio}};

constexpr int no_ptrace = 99;  // a status of the child

using Files = std::map<std::string, std::string>;  // by their path in the folder

struct Traced {
  int status = 0;
  std::vector<const SystemCall*> seen;  // since the first that named a file of the folder
  std::string out, err;
};

class Crash : public Cli {
 protected:
  // The disk in memory, where there is one: fsync takes no time.
  Crash() {
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
    home_ = std::make_unique<test::ScratchFolder>();
  }
  ~Crash() override { unsetenv("TMPDIR"); }

  // Runs the program in the folder, and the call of this number meets the fault.
  Traced trace(const Strings& words, Fault fault = none, std::size_t number = 0) const;
  // The run without a fault, and the files before and after it.
  struct Whole {
    Files before;
    Traced run;
    Files after;
  };
  // Makes the whole run, then a run with every fault at every call from the first that names `begin` on:
  // judge(run, fault, name of the call, whole) follows each of these.
  template <class Judge>
  void run_all(const Strings& words, const std::string& begin, const Judge& judge);
  // The same, where each output is the old file or the new one. These outputs stand there already, with other contents.
  void expect_old_or_new(const Strings& words, const std::string& begin, const Strings& outputs);
  Files files() const {
    Files found;
    for (const auto& entry : fs::recursive_directory_iterator(home_->path()))
      if (entry.is_regular_file()) found[fs::relative(entry.path(), home_->path())] = read_text(entry.path());
    return found;
  }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((*home_ / name).parent_path());
    write_text(*home_ / name, text);
  }
  void write(const std::string& name, const std::vector<Tensor>& tensors) const {
    fs::create_directories((*home_ / name).parent_path());
    rotary::write_tensors(*home_ / name, tensors, {});
  }
  void llama(const std::string& folder) const {
    write(folder + "config.json", R"({"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2,)"
                                  R"("num_key_value_heads": 1, "num_hidden_layers": 2, "rope_theta": 100.0,)"
                                  R"("max_position_embeddings": 64})");
  }

  const char* program_ = ROTARY_PROGRAM;

 private:
  void put_back(const Files& before) const {
    for (const auto& entry : fs::directory_iterator(home_->path())) fs::remove_all(entry);
    for (const auto& [name, text] : before) write(name, text);
  }
  void judge(const Traced&, Fault, const Files& before, const Files& after, bool together) const;

  std::unique_ptr<test::ScratchFolder> home_;
  std::string begin_;
};

// The files but those that only a killed run leaves.
Files without_left(Files files) {
  std::erase_if(files,
                [](const auto& file) { return contains(file.first, ".rotary-") || contains(file.first, ".partial-"); });
  return files;
}

// The text at an address of the traced process, as far as its page goes.
std::string text_at(pid_t process, unsigned long long address) {
  char text[256] = {};
  iovec here = {text, std::min<std::size_t>(sizeof text - 1, 4096 - address % 4096)};
  iovec there = {reinterpret_cast<void*>(address), here.iov_len};
  process_vm_readv(process, &here, 1, &there, 1, 0);
  return text;
}

Traced Crash::trace(const Strings& words, Fault fault, std::size_t number) const {
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> arguments = {const_cast<char*>("rotary")};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const int modes = O_WRONLY | O_CREAT | O_TRUNC;
    dup2(open(path("out").c_str(), modes, 0600), 1);
    dup2(open(path("err").c_str(), modes, 0600), 2);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // which needs ptrace itself
    if (chdir(home_->path().c_str()) != 0 || ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(no_ptrace);
    execv(program_, arguments.data());
    _exit(1);
  }
  Traced result;
  waitpid(child, &result.status, 0);
  if (!WIFSTOPPED(result.status)) return result;
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  bool inside = false, begun = false;
  long long answer = 0;  // in place of the call that is skipped
  int signal = 0;
  while (ptrace(PTRACE_SYSCALL, child, nullptr, signal) == 0 && waitpid(child, &result.status, 0) == child &&
         WIFSTOPPED(result.status)) {
    signal = WSTOPSIG(result.status);
    if (signal != (SIGTRAP | 0x80)) continue;
    signal = 0;
    user_regs_struct registers;
    ptrace(PTRACE_GETREGS, child, nullptr, &registers);
    inside = !inside;
    if (!inside) {
      if (answer != 0) registers.rax = static_cast<unsigned long long>(answer);
      if (answer != 0) ptrace(PTRACE_SETREGS, child, nullptr, &registers);
      answer = 0;
      continue;
    }
    auto call = std::ranges::find(system_calls, registers.orig_rax, &SystemCall::number);
    if (call == std::end(system_calls)) continue;
    if (call == system_calls) call += (registers.rdx & O_CREAT) != 0 ? 2 : (registers.rdx & O_DIRECTORY) != 0 ? 1 : 0;
    const unsigned long long place = call->path == 0 ? registers.rdi : registers.rsi;
    begun = begun || (call->path >= 0 && text_at(child, place).starts_with(begin_));
    if (!begun) continue;
    result.seen.push_back(call);
    if (fault == none || result.seen.size() != number + 1) continue;
    if (fault == killed) {
      kill(child, SIGKILL);
      waitpid(child, &result.status, 0);
      break;
    }
    if (fault == ended) kill(child, SIGTERM);
    if (fault == cut) registers.rdx = std::min(registers.rdx, 1ULL);
    answer = fault == eio ? -EIO : fault == enospc ? -ENOSPC : fault == eintr ? -EINTR : 0;
    if (answer != 0) registers.orig_rax = ~0ULL;
    ptrace(PTRACE_SETREGS, child, nullptr, &registers);
  }
  result.out = read_text(path("out")), result.err = read_text(path("err"));
  return result;
}

void Crash::judge(const Traced& run, Fault fault, const Files& before, const Files& after, bool together) const {
  const Files now = fault == killed ? without_left(files()) : files();
  EXPECT_EQ(WIFSIGNALED(run.status) && WTERMSIG(run.status) == SIGKILL, fault == killed);
  if (run.status == 0 && fault != killed) {
    EXPECT_TRUE(now == after);
  } else {
    EXPECT_TRUE(fault != eintr && fault != cut) << "such a call is repeated";
  }
  if (run.status != 0 && fault <= enospc) {
    EXPECT_EQ(WEXITSTATUS(run.status), 1);
    EXPECT_TRUE(std::regex_match(run.err, std::regex("(note: [^\n]+\n)*error: (?!INTERNAL)[A-Z_]+: [^\n]+\n")))
        << run.err;
  }
  EXPECT_TRUE(!together || now == before || now == after);
  for (const auto& [name, text] : now) {
    const bool old = before.contains(name) && before.at(name) == text;
    EXPECT_TRUE(old || (after.contains(name) && after.at(name) == text)) << name;
  }
  for (const auto& [name, text] : before) EXPECT_TRUE(now.contains(name)) << name;
}

template <class Judge>
void Crash::run_all(const Strings& words, const std::string& begin, const Judge& judge) {
  begin_ = begin;
  Whole whole{files(), trace(words), {}};
  const std::vector<const SystemCall*>& calls = whole.run.seen;
  if (whole.run.status == no_ptrace << 8) GTEST_SKIP() << "no process may be traced here";
  ASSERT_EQ(whole.run.status, 0) << whole.run.err;
  whole.after = files();
  ASSERT_TRUE(whole.before != whole.after);
  std::size_t runs = 0;
  for (std::size_t number = 0; number < calls.size(); ++number) {
    for (const Fault fault : {eio, enospc, eintr, cut, ended, killed}) {
      if ((calls[number]->faults & fault) == 0) continue;
      put_back(whole.before);
      const Traced run = trace(words, fault, number);
      SCOPED_TRACE(words.front() + ": fault " + std::to_string(fault) + " at call " + std::to_string(number) + ", " +
                   calls[number]->name + ": " + run.err);
      judge(run, fault, calls[number]->name, whole);
      ++runs;
    }
  }
  put_back(whole.before);
  std::printf("%s: %zu calls, %zu runs\n", words.front().c_str(), calls.size(), runs);
}

void Crash::expect_old_or_new(const Strings& words, const std::string& begin, const Strings& outputs) {
  for (const std::string& output : outputs) write(output, "old");
  run_all(words, begin, [&](const Traced& run, Fault fault, const std::string& call, const Whole& whole) {
    judge(run, fault, whole.before, whole.after, outputs.size() < 2);
    EXPECT_TRUE(fault == killed || run.status != 0 || run.out == whole.run.out);
    EXPECT_FALSE(fault <= enospc && (call == "write" || call == "rename") && run.status == 0);
    if (fault == killed && without_left(files()) == whole.before) {
      EXPECT_EQ(trace(words).status, 0) << "what is left harms no later run";
      EXPECT_TRUE(without_left(files()) == whole.after);
    }
  });
}

TEST_F(Crash, AFileIsTheOldOneOrTheNewOne) {
  llama("");
  write("q.npy", {make_tensor<float>("q", ElementType::f32, {3, 2, 4}, some_values(24))});
  write("q.safetensors", {make_tensor<float>("q", ElementType::f32, {3, 2, 4}, some_values(24))});
  write("qwen.json", R"({"model_type": "qwen2_vl"})");
  write("page.html", R"(<script type="application/json" id="models">[]</script>)");
  write("ids.npy", {make_tensor<std::int64_t>("i", ElementType::i64, {1, 3}, {1, 2, 3})});
  const std::string temporary = ".rotary-";
  expect_old_or_new({"table", "config.json", "--positions", "0:4", "--output", "t.safetensors"}, "config.json",
                    {"t.safetensors"});
  expect_old_or_new({"apply", "config.json", "--input", "q.npy", "--output", "r.npy"}, temporary, {"r.npy"});
  expect_old_or_new({"apply", "config.json", "--input", "q.safetensors", "--output", "q.safetensors"}, temporary, {});
  expect_old_or_new({"golden", "config.json", "--output", "g.json"}, "g.json", {});
  expect_old_or_new({"positions", "qwen.json", "--tokens", "ids.npy", "--output", "p.npy", "--delta", "d.npy"},
                    "ids.npy", {"p.npy", "d.npy"});
  expect_old_or_new({"explore", "config.json", "--page", "page.html", "--output", "e.html"}, "e.html", {"e.html"});
}

TEST_F(Crash, AFolderAppearsWholeOrNotAtAll) {
  llama("in/");
  const auto projection = [](const std::string& name, std::int64_t rows) {
    return make_tensor<float>("model.layers." + name + "_proj.weight", ElementType::f32, {rows, 8},
                              some_values(static_cast<std::size_t>(8 * rows)));
  };
  std::string map;
  for (const std::string file : {"a", "b"}) {
    const std::string layer = file == "a" ? "0" : "1";
    write("in/" + file + ".safetensors",
          {projection(layer + ".self_attn.q", 8), projection(layer + ".self_attn.k", 4)});
    for (const char* which : {"q", "k"})
      map += (map.empty() ? "" : ",") + ("\"model.layers." + layer + ".self_attn." + which + "_proj.weight\": \"") +
             file + ".safetensors\"";
  }
  write("in/model.safetensors.index.json", R"({"weight_map": {)" + map + "}}");
  write("in/more/code.py", "x = 1");
  expect_old_or_new({"convert", "in", "--to", "interleaved", "--output", "out", "--verify"}, "in", {});
  expect_old_or_new({"extend", "in", "--length", "128", "--scaling", "yarn", "--output", "out"}, "out", {});
}

// A training that failed goes on from its checkpoint, or is begun anew where there is none. Its 1500 runs take half an
// hour, so no stage has it: ROTARY_TORCH_PROGRAM=.../rotary-torch tests/cli_test --gtest_filter='Crash.ATraining*'
TEST_F(Crash, ATrainingGoesOnFromAnyFault) {
  program_ = std::getenv("ROTARY_TORCH_PROGRAM");
  if (program_ == nullptr) GTEST_SKIP() << "ROTARY_TORCH_PROGRAM names no rotary-torch";
  write("text", std::string(3000, 'a') + std::string(3000, 'b'));
  const Strings train = {"train", "--preset",  "smoke", "--text",   "text", "--steps",
                         "1",     "--threads", "1",     "--output", "run"};
  run_all(train, "run/.rotary-", [&](const Traced& run, Fault fault, const std::string&, const Whole& whole) {
    const Files now = without_left(files());
    EXPECT_TRUE(fault == killed || now == files()) << "a temporary is left";
    EXPECT_TRUE(run.status != 0 || now == whole.after);
    if (now == whole.after) return;
    Strings again = train;
    if (now.contains("run/checkpoint.safetensors")) again.push_back("--resume");
    EXPECT_EQ(trace(again).status, 0);
    EXPECT_TRUE(without_left(files()) == whole.after);
  });
}

}  // namespace
}  // namespace rotary::cli_tests
#endif
