// Qwen2-VL's rope: each pair turns by one of three axes (time, height, width). Text has one position on all three;
// the tokens of an image differ in row and column. Then a gradient goes back through the same table.
//   g++ -std=c++20 image_tokens.cpp $(pkg-config --cflags --libs rotary) -o image_tokens
#include <rotary/rotary.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  constexpr int head_dim = 128, sections[] = {16, 24, 24};  // pairs of t, h, w
  rotary::Rope rope{.head_dim = head_dim, .base = 1000000, .pairing = rotary::Pairing::half};
  rope.axis = rotary::sectioned_axes(sections);

  // 3 tokens of text, an image of 2 rows and 3 columns, 2 tokens of text: positions are [3 axes, tokens].
  std::vector<std::int64_t> t = {0, 1, 2}, h = t, w = t;
  for (int patch = 0; patch < 6; ++patch) {
    t.push_back(3);
    h.push_back(3 + patch / 3);
    w.push_back(3 + patch % 3);
  }
  for (std::int64_t text = 6; text < 8; ++text) {  // goes on behind the largest position so far, 5
    for (auto* axis : {&t, &h, &w}) axis->push_back(text);
  }
  std::vector<std::int64_t> positions = t;
  positions.insert(positions.end(), h.begin(), h.end());
  positions.insert(positions.end(), w.begin(), w.end());

  const auto tokens = static_cast<std::int64_t>(t.size());
  const rotary::Table table(rotary::frequencies(rope), rotary::Positions(positions, 3));

  std::vector<float> q(t.size() * head_dim), gradient(q.size());
  for (std::size_t i = 0; i < q.size(); ++i) {
    q[i] = std::sin(static_cast<float>(i));
    gradient[i] = std::cos(0.7f * static_cast<float>(i));
  }
  const std::vector<float> q_before = q, gradient_before = gradient;
  const rotary::Layout layout = rotary::thd(tokens, 1, head_dim);
  rotary::rotate(rotary::heads(q, layout), table);
  rotary::rotate(rotary::heads(gradient, layout), table, {.direction = rotary::Direction::backward});

  // The transpose: gradient . rotate(q) == backward(gradient) . q
  double forward = 0, backward = 0;
  for (std::size_t i = 0; i < q.size(); ++i) {
    forward += double{gradient_before[i]} * q[i];
    backward += double{gradient[i]} * q_before[i];
  }
  std::printf("%lld tokens on 3 axes; <g, rotate(q)> = %.5f, <backward(g), q> = %.5f\n",
              static_cast<long long>(tokens), forward, backward);
  return std::abs(forward - backward) < 1e-4 ? 0 : 1;
}
