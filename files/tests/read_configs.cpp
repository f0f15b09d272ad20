// Prints the ropes, frequencies and notes of each model that the arguments name, bit for bit, or why it is refused.
// read_configs.c prints the same by the C interface.
#include <rotary/config.h>

#include <cstdio>

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    try {
      const rotary::Model model = rotary::read_config(argv[i]);
      for (const rotary::Note& note : model.notes) std::puts(rotary::sentence_of(note).c_str());
      for (const rotary::ModelRope& rope : model.ropes) {
        const rotary::Frequencies f = rotary::frequencies(rope.rope, 8192);
        std::printf("%s: base %a, head_dim %d, rotary_dim %d, first %d, heads %d and %d, factors %a %a\n",
                    rope.part.c_str(), rope.rope.base, rope.rope.head_dim, rope.rope.rotary_dim, rope.first, rope.heads,
                    rope.kv_heads, f.attention_factor, rope.softmax_factor);
        for (int pair = 0; pair < f.pairs(); ++pair) std::printf("%a\n", f.inv_freq[static_cast<std::size_t>(pair)]);
      }
    } catch (const rotary::Error& error) {
      std::printf("%s %s\n", rotary::name(error.code()), error.what());
    }
  }
}
