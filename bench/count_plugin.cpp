// A plugin for qemu's user emulation: counts the instructions between the entry of measured() and the return to main(),
// for scripts/count_instructions.sh, and prints their number at exit. The declarations are those of QEMU's plugin
// interface that it needs, as Debian's qemu-user brings no header; ROTARY_PLUGIN_VERSION is the interface's version.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>

extern "C" {

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;
using qemu_plugin_id_t = std::uint64_t;
using vcpu_udata_cb = void (*)(unsigned vcpu, void* data);
using tb_trans_cb = void (*)(qemu_plugin_id_t id, qemu_plugin_tb* tb);
using udata_cb = void (*)(qemu_plugin_id_t id, void* data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb cb);
void qemu_plugin_register_vcpu_tb_exec_cb(qemu_plugin_tb* tb, vcpu_udata_cb cb, int flags, void* data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, udata_cb cb, void* data);
std::size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb* tb);
qemu_plugin_insn* qemu_plugin_tb_get_insn(const qemu_plugin_tb* tb, std::size_t index);
const char* qemu_plugin_insn_symbol(const qemu_plugin_insn* insn);
void qemu_plugin_outs(const char* text);

[[gnu::visibility("default")]] int qemu_plugin_version = ROTARY_PLUGIN_VERSION;
[[gnu::visibility("default")]] int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                                                       char** argv);
}

namespace {

constexpr int no_registers = 0;  // QEMU_PLUGIN_CB_NO_REGS
constexpr std::uintptr_t in_measured = std::uintptr_t{1} << 32, in_main = std::uintptr_t{1} << 33;

bool counting = false;
std::uint64_t count = 0;

// data: the number of instructions of the block, and in which of the two functions it lies.
void run_block(unsigned, void* data) {
  const auto block = reinterpret_cast<std::uintptr_t>(data);
  if ((block & in_measured) != 0) counting = true;
  if ((block & in_main) != 0) counting = false;
  if (counting) count += block & 0xffffffffu;
}

void translate_block(qemu_plugin_id_t, qemu_plugin_tb* tb) {
  std::uintptr_t block = qemu_plugin_tb_n_insns(tb);
  const char* symbol = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(tb, 0));
  if (symbol != nullptr && std::strcmp(symbol, "measured") == 0) block |= in_measured;
  if (symbol != nullptr && std::strcmp(symbol, "main") == 0) block |= in_main;
  qemu_plugin_register_vcpu_tb_exec_cb(tb, run_block, no_registers, reinterpret_cast<void*>(block));
}

void print(qemu_plugin_id_t, void*) {
  char text[64];
  std::snprintf(text, sizeof text, "instructions: %" PRIu64 "\n", count);
  qemu_plugin_outs(text);
}

}  // namespace

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t*, int, char**) {
  qemu_plugin_register_vcpu_tb_trans_cb(id, translate_block);
  qemu_plugin_register_atexit_cb(id, print, nullptr);
  return 0;
}
