// A plugin for qemu's user emulation: counts the instructions between the entry of measured() and the return to main(),
// for scripts/count_instructions.sh, and prints their number at exit. The declarations are those of QEMU's plugin
// interface that it needs, as Debian's qemu-user brings no header; ROTARY_PLUGIN_VERSION is the interface's version.
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

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

bool counting = false;
std::uint64_t count = 0;

// A block of instructions that is run, and whether measured() or main() begins or goes on with it.
struct Block {
  std::uint64_t instructions;
  bool in_measured, in_main;
};

void run_block(unsigned, void* data) {
  const Block& block = *static_cast<const Block*>(data);
  counting = block.in_measured || (counting && !block.in_main);
  if (counting) count += block.instructions;
}

void translate_block(qemu_plugin_id_t, qemu_plugin_tb* tb) {
  static std::deque<Block> blocks;  // as long as qemu runs
  const char* const symbol = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(tb, 0));
  const std::string_view in = symbol != nullptr ? symbol : "";
  blocks.push_back({qemu_plugin_tb_n_insns(tb), in == "measured", in == "main"});
  qemu_plugin_register_vcpu_tb_exec_cb(tb, run_block, 0 /* QEMU_PLUGIN_CB_NO_REGS */, &blocks.back());
}

void print(qemu_plugin_id_t, void*) { qemu_plugin_outs(("instructions: " + std::to_string(count) + "\n").c_str()); }

}  // namespace

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t*, int, char**) {
  qemu_plugin_register_vcpu_tb_trans_cb(id, translate_block);
  qemu_plugin_register_atexit_cb(id, print, nullptr);
  return 0;
}
