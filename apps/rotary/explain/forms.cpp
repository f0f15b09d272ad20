// Chapters 5 to 7: other ways to write the rotation, and which elements form a pair.
#include <array>
#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "apps/shared/text.h"
#include "chapters.h"
#include "numbers.h"

namespace rotary::cli {

namespace {

using Matrix = std::array<std::array<double, 4>, 4>;

// The rotation of two neighbouring pairs at one position.
Matrix rotation_matrix(const Frequencies& speeds, int position) {
  Matrix matrix{};
  for (std::size_t i = 0; i < 2; ++i) {
    const double angle = position * speeds.inv_freq[i];
    matrix[2 * i][2 * i] = matrix[2 * i + 1][2 * i + 1] = std::cos(angle);
    matrix[2 * i][2 * i + 1] = -std::sin(angle);
    matrix[2 * i + 1][2 * i] = std::sin(angle);
  }
  return matrix;
}

std::string drawn(const Matrix& matrix, const Vector& x, const std::vector<double>& product) {
  std::string out;
  for (std::size_t row = 0; row < 4; ++row) {
    out += "[ ";
    for (const double value : matrix[row]) out += value == 0 ? "        . " : lead(fixed(value, 6), 9) + " ";
    out += " ]  [ " + fixed(static_cast<double>(x[row]), 0) + " ]" + (row == 1 ? "  =  [ " : "     [ ") +
           lead(fixed(product[row], 6), 9) + " ]\n";
  }
  return out;
}

// "-2.999 + 1.000i"
std::string text(std::complex<double> z, int decimals) {
  return fixed(z.real(), decimals) + (z.imag() < 0 ? " - " : " + ") + fixed(std::abs(z.imag()), decimals) + "i";
}

// Interleaved pairs to half pairs: (x0, x1, x2, x3) becomes (x0, x2, x1, x3).
Vector to_halves(const Vector& interleaved) {
  const std::size_t pairs = interleaved.size() / 2;
  Vector halves(interleaved.size());
  for (std::size_t i = 0; i < pairs; ++i) {
    halves[i] = interleaved[2 * i];
    halves[i + pairs] = interleaved[2 * i + 1];
  }
  return halves;
}

}  // namespace

Page explain_matrix() {
  const Frequencies speeds = plain_frequencies(4);
  const Vector x{1, 2, 3, 4};
  const Matrix matrix = rotation_matrix(speeds, 2);
  std::vector<double> product(4);
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t column = 0; column < 4; ++column)
      product[row] += matrix[row][column] * static_cast<double>(x[column]);
  }
  const Vector rotated = rotate_head(x, speeds, 2);

  Page page;
  page.say(
      R"(Papers write RoPE as a block-diagonal matrix. Take a head of four elements, `x = (1, 2, 3, 4)`, at position
      2. Pair 0 is `(1, 2)` and turns by {} radians; pair 1 is `(3, 4)` and turns by {}. Each pair has a block of its
      own on the diagonal; all else is zero (shown as a point), because pairs do not mix.)",
      {fixed(2 * speeds.inv_freq[0], 2), fixed(2 * speeds.inv_freq[1], 2)});
  page.show(drawn(matrix, x, product));
  page.heading("Without the matrix");
  const std::int64_t entries = 128 * 128;
  const std::int64_t filled = 2 * 128;
  page.say(R"(Nobody multiplies by it. For a head of 128 elements it has {} entries, and all but {} are zero. Write down
      only what is there: each element times the cosine of its pair, plus its partner times the sine. The first of a
      pair takes its partner with a minus.)",
           {std::to_string(entries), std::to_string(filled)});
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < 4; ++i) {
    const double angle = 2 * speeds.inv_freq[i / 2];
    const double partner = static_cast<double>(i % 2 == 0 ? -x[i + 1] : x[i - 1]);
    const double sum = static_cast<double>(x[i]) * std::cos(angle) + partner * std::sin(angle);
    rows.push_back({fixed(static_cast<double>(x[i]), 0), fixed(std::cos(angle), 6), fixed(partner, 0),
                    fixed(std::sin(angle), 6), fixed(sum, 6), fixed(static_cast<double>(rotated[i]), 6)});
  }
  page.table({"x", "cos", "partner", "sin", "x cos + partner sin", "rotate"}, std::move(rows));
  page.say(R"(The last column is the library's. The three ways agree, and this one costs two products per element, so {}
      for a head of 128 instead of {}. It is also the line that you meet in most programs, there
      for the half pairing of chapter 7:)",
           {std::to_string(filled), std::to_string(entries)});
  page.show("q * cos + rotate_half(q) * sin");
  page.heading("Turning back");
  const Table table(speeds, 2);
  Vector back = rotated;
  rotate(heads(back, thd(1, 1, 4)), table, Direction::backward);
  page.say(
      R"(The transposed matrix has the signs of the sines exchanged: it turns the other way, so it undoes the turn. It
      is also the gradient of RoPE, which training needs. `rotate` with `Direction::backward` in the library gives `{}`.)",
      {list(back, 6)});
  return page;
}

Page explain_complex() {
  using Complex = std::complex<double>;
  using namespace std::complex_literals;
  const Frequencies one_radian{.inv_freq = {1}};
  const Frequencies one_degree{.inv_freq = {two_pi / 360}};
  const Complex z{3, 1};
  const Complex turn = std::exp(1i * (two_pi / 6));
  const Complex q{3, 1};
  const Complex k{2, 2};

  Page page;
  page.say(
      R"(Who knows complex numbers knows RoPE already. Read a pair `(a, b)` as the number `a + bi`. To turn it by an
      angle t, multiply by `cos t + i sin t`, which is written `e^(it)`. The arrow of chapter 1 again, turned by 60
      degrees:)");
  page.show(R"(
e^(i 60 degrees)       = {}
(3 + 1i) * that        = {}
rotate in the library  = {})",
            {text(turn, 6), text(z * turn, 6), list(rotate_head({3, 1}, one_degree, 60), 6)});
  page.say(R"(Two turns in a row are one turn by the sum, because `e^(is) e^(it) = e^(i(s + t))`. A turn by position m
      with speed w is `e^(imw)`.)");
  page.heading("The score in one line");
  page.say(
      R"(A dot product of two pairs is the real part of `q` times the conjugate of `k` (the conjugate of `a + bi` is
      `a - bi`). Put the turns in, and the positions m and n melt into `m - n`:)");
  page.show(R"(
score = Re( q e^(imw)  *  conj(k e^(inw)) )
      = Re( q conj(k)  *  e^(i(m - n)w)   ))");
  const Complex content = q * std::conj(k);
  const Complex place = std::exp(3i);
  page.say("With `q = 3 + 1i` and `k = 2 + 2i` of chapter 2, `w = 1`, at positions 5 and 2:");
  page.show(R"(
q conj(k)                = {}      what the words say
e^(3i)                   = {}      where they stand
product                  = {}
its real part            = {}
score by the library     = {})",
            {lead(text(content, 6), 21), lead(text(place, 6), 21), lead(text(content * place, 6), 21),
             fixed((content * place).real(), 4), fixed(score({3, 1}, 5, {2, 2}, 2, one_radian), 4)});
  page.say(
      R"(Content and place are two factors. That is also why many programs store a complex table and multiply: it is
      the same arithmetic, product by product.)");
  return page;
}

Page explain_pairing() {
  const Frequencies speeds = plain_frequencies(4);
  Page page;
  page.say(R"(Which two elements of a head form a pair? Any choice would do, as long as `q`, `k` and the trained weights
      agree. Two are in common use. Here for eight elements, with letters for the pairs:)");
  page.show(R"(
element        0   1   2   3   4   5   6   7

interleaved    a   a   b   b   c   c   d   d      (x[2i], x[2i + 1])
half           a   b   c   d   a   b   c   d      (x[i], x[i + 4]))");
  page.say(R"(Interleaved: RoFormer, GPT-J, Llama as Meta published it. Half: GPT-NeoX, and nearly everything in Hugging
      Face's format, Llama included. Between the two lies a permutation: first members to the front, partners
      behind.)");
  page.show(R"(
interleaved    x0  x1  x2  x3  x4  x5  x6  x7
half           x0  x2  x4  x6  x1  x3  x5  x7)");
  page.heading("Equal, other, and wrong");
  const Vector q{1, 2, 3, 4};
  const Vector k{4, 1, 3, 2};
  const Vector q_half = to_halves(q);
  const Vector k_half = to_halves(k);
  page.say(
      R"(Take `q = {}` and `k = {}`. Permuted for half they are `{}` and `{}`. Four ways to score them at distance 3,
      near the beginning and a hundred positions later:)",
      {list(q, 0), list(k, 0), list(q_half, 0), list(k_half, 0)});
  std::vector<Cells> rows;
  const auto add = [&](const char* what, const Vector& left, Pairing left_pairing, const Vector& right,
                       Pairing right_pairing) {
    Cells row{what};
    for (const int n : {4, 104}) {
      row.push_back(
          fixed(dot(rotate_head(left, speeds, n + 3, left_pairing), rotate_head(right, speeds, n, right_pairing)), 4));
    }
    rows.push_back(std::move(row));
  };
  constexpr Pairing interleaved = Pairing::interleaved;
  constexpr Pairing half = Pairing::half;
  add("both interleaved", q, interleaved, k, interleaved);
  add("both half, both permuted", q_half, half, k_half, half);
  add("both half, not permuted", q, half, k, half);
  add("q half, k interleaved", q, half, k, interleaved);
  page.table({"pairing", "at 7 and 4", "at 107 and 104"}, std::move(rows));
  page.item(
      "The first two rows are the same: permute `q` and `k` alike, change the pairing, and nothing has happened.");
  page.item(R"(The third is a good RoPE, but another one. It depends on the distance only, and weights that were trained
      for the first row give wrong scores with it. No error, no warning: just worse text.)");
  page.item("The fourth is no RoPE at all: its score changes with the place.");
  page.say(
      R"(Since `q` and `k` come out of linear layers, a checkpoint is converted by permuting the rows of these layers'
      weights, head by head. That is what the scripts do that turn Meta's Llama files into Hugging Face's.)");
  page.say(
      R"(A third pairing, interleaved_to_half, is that of DeepSeek's family in Hugging Face's format: it reads the pairs
      interleaved, `(x[2i], x[2i + 1])`, and writes them as halves. Scores are those of interleaved, since `q` and `k`
      are permuted alike. The library has no default: where `Rope::pairing` is not set, it refuses to make frequencies.
      `rotary inspect` says what a model uses.)");
  return page;
}

}  // namespace rotary::cli
