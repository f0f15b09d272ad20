// Built against an installed rotary, by find_package and by pkg-config.
#include <rotary/config.h>
#include <rotary/reference.h>
#include <rotary/rotary.h>
#include <rotary/self_test.h>
#include <rotary/targets.h>

#include <cstdio>
#include <vector>

int main() {
  rotary::self_test();
  const rotary::Model model =
      rotary::parse_config(R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
      "num_hidden_layers": 2, "rope_theta": 10000.0})");
  const rotary::Rope& rope = model.ropes.at(0).rope;
  const rotary::Table table(rotary::frequencies(rope), 3);
  std::vector<float> q(16, 1.0F);
  rotary::rotate(rotary::heads(q, rotary::thd(1, 1, 16)), table);
  std::printf("%d pairs, q[0] = %.7g\n", table.pairs(), static_cast<double>(q[0]));
  return 0;
}
