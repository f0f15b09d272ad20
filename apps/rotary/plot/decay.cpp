// The mean score by distance, and its envelope.
//
// Of unit vectors q and k, pair i of q at position m and of k at n adds Re(q_i conj(k_i) e^(i D w_i)) to their score,
// with D = m - n and the pair seen as a complex number (RoFormer, arXiv:2104.09864, section 3.4.3). The mean over many
// q and k has the mean of h_i = q_i conj(k_i), so the mean score is the real part of S(D) = sum_i h_i e^(i D w_i),
// times the attention factor's square, plus what the elements that do not turn add. Its envelope is plus and minus
// |S(D)|: the real part never leaves it. RoFormer's own bound, by Abel's summation, is max_i |h_(i+1) - h_i| times the
// sum over j of |S_j|, S_j the sum of e^(i D w_i) of the first j pairs; it is drawn in proportion to its value at
// distance 0.
#include <algorithm>
#include <cmath>
#include <complex>

#include "apps/rotary/source.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "files/tensors/element_types.h"
#include "files/text/paths.h"
#include "request.h"

namespace rotary::cli {

namespace {

using Complex = std::complex<double>;

// Means over the pairs of vectors, and over heads.
struct Content {
  std::vector<Complex> turning;  // h_i, [heads, pairs] of the rope
  double still = 0;
};

// What turns q against k: a phase leaves no trace in a score, and xPos's centre neither.
Frequencies relative(Frequencies f) {
  f.phase.clear();
  f.xpos.center = 0;
  return f;
}

// ---- random q and k ----

// The same on every machine: sums, and no functions of a library.
class Random {
 public:
  explicit Random(std::int64_t seed) : state_(static_cast<std::uint64_t>(seed) * 0x9E3779B97F4A7C15U + 1) {}
  double normal() {  // nearly: twelve uniform numbers have a variance of 1
    double sum = -6;
    for (int i = 0; i < 12; ++i) {
      state_ = state_ * 6364136223846793005U + 1442695040888963407U;
      sum += static_cast<double>(state_ >> 11) * 0x1p-53;
    }
    return sum;
  }

 private:
  std::uint64_t state_;
};

// k = q: the mean score of independent vectors is 0 at every distance.
Content random_content(const ModelRope& used, const Frequencies& f, std::int64_t seed) {
  constexpr int vectors = 256;
  const auto pairs = static_cast<std::size_t>(f.pairs()), heads = static_cast<std::size_t>(f.heads);
  Random random(seed);
  Content content{std::vector<Complex>(heads * pairs), 0};
  std::vector<double> squares(static_cast<std::size_t>(used.rope.head_dim));
  for (int vector = 0; vector < vectors; ++vector) {
    double length = 0;
    for (double& square : squares) {
      const double element = random.normal();
      square = element * element;
      length += square;
    }
    const double weight = 1 / (length * vectors);
    for (std::size_t i = 0; i < squares.size(); ++i) {
      if (i / 2 < pairs) {
        content.turning[i / 2] += squares[i] * weight;
      } else {
        content.still += squares[i] * weight;
      }
    }
  }
  for (std::size_t i = heads * pairs; i-- > 0;)  // alike in each head
    content.turning[i] = content.turning[i % pairs] / static_cast<double>(heads);
  return content;
}

// ---- given q and k ----

Tensor tensor_in(const std::string& path, const char* name) {
  InputTensors input(files::path_of(path));
  const std::vector<TensorInfo>& infos = input.infos();
  const bool one = infos.size() == 1;
  const auto found =
      std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& info) { return info.name == name; });
  if (found == infos.end() && !one) {
    fail(Code::TENSOR, "plot", printable(path), " must hold one tensor or one named '", name, "' but holds ",
         infos.size());
  }
  return input.read(found == infos.end() ? infos[0].name : found->name);
}

// As the word says; "" is bthd for four dimensions, thd for three.
Layout layout_by(const std::string& word, const Tensor& tensor) {
  const std::size_t dimensions = tensor.shape.size();
  if (word.empty() && dimensions != 3 && dimensions != 4) {
    fail(Code::SHAPE, "plot", label(tensor),
         " must have 4 dimensions (bthd, bhtd, tbhd) or 3 (thd: tokens, heads, head_dim) but got ",
         shape_text(tensor.shape));
  }
  const Layout layout = layout_of("plot", tensor, !word.empty() ? word : dimensions == 4 ? "bthd" : "thd");
  if (!dtype_of(tensor.type))
    fail(Code::DTYPE, "plot", label(tensor), " must be F32, F16 or BF16 but got ", name(tensor.type));
  return layout;
}

// The mean of the unit vectors of each head, over batch and tokens.
std::vector<std::vector<double>> mean_directions(const std::vector<double>& values, const Layout& layout) {
  const double count = static_cast<double>(layout.batch * layout.tokens);
  std::vector<std::vector<double>> means;
  std::vector<double> vector(static_cast<std::size_t>(layout.head_dim));
  for (std::int64_t head = 0; head < layout.heads; ++head) {
    std::vector<double>& mean = means.emplace_back(vector.size());
    for (std::int64_t row = 0; row < layout.batch * layout.tokens; ++row) {
      const std::int64_t begin = row / layout.tokens * layout.batch_stride + row % layout.tokens * layout.token_stride +
                                 head * layout.head_stride;
      double squares = 0;
      for (std::size_t i = 0; i < vector.size(); ++i) {
        vector[i] = values[static_cast<std::size_t>(begin) + i];
        squares += vector[i] * vector[i];
      }
      if (!std::isfinite(squares)) fail(Code::NUMBER, "plot", "q and k must be finite numbers but got NaN or infinity");
      for (std::size_t i = 0; i < vector.size() && squares > 0; ++i) mean[i] += vector[i] / std::sqrt(squares) / count;
    }
  }
  return means;
}

// The two elements of pair i in a block of n pairs.
std::pair<std::size_t, std::size_t> elements_of(Pairing pairing, std::size_t i, std::size_t n) {
  return pairing == Pairing::half ? std::pair(i, i + n) : std::pair(2 * i, 2 * i + 1);
}

// Each q with each k of its head: the mean of their products is the product of their means. Several heads of q share
// one of k where there are fewer.
Content given_content(const PlotRequest& request, const ModelRope& used, const Frequencies& f) {
  const Tensor q_tensor = tensor_in(request.q, "q"), k_tensor = tensor_in(request.k, "k");
  const Layout q = layout_by(request.layout, q_tensor), k = layout_by(request.layout, k_tensor);
  const bool fits = q.head_dim == used.rope.head_dim && k.head_dim == used.rope.head_dim;
  if (!fits || q.heads % std::max<std::int64_t>(1, k.heads) != 0 || q.heads % f.heads != 0 || q.tokens < 1 ||
      k.tokens < 1 || q.batch < 1 || k.batch < 1) {
    fail(Code::SHAPE, "plot", "q and k must have tokens, head_dim ", used.rope.head_dim, " and heads that k's",
         (f.heads > 1 ? ", and the " + std::to_string(f.heads) + " of the rope," : std::string()), " divide but got q ",
         shape_text(q_tensor.shape), " and k ", shape_text(k_tensor.shape));
  }
  const auto q_means = mean_directions(files::numbers_of(q_tensor), q),
             k_means = mean_directions(files::numbers_of(k_tensor), k);
  const auto pairs = static_cast<std::size_t>(f.pairs()), heads = static_cast<std::size_t>(f.heads);
  const std::size_t group = q_means.size() / k_means.size(), of_row = q_means.size() / heads;
  const double share = 1 / static_cast<double>(q_means.size());
  const auto first = static_cast<std::size_t>(used.first);
  Content content{std::vector<Complex>(heads * pairs), 0};
  for (std::size_t head = 0; head < q_means.size(); ++head) {
    const std::vector<double>&a = q_means[head], &b = k_means[head / group];
    for (std::size_t i = 0; i < a.size(); ++i)
      if (i < first || i >= first + 2 * pairs) content.still += a[i] * b[i] * share;
    for (std::size_t i = 0; i < pairs; ++i) {
      const auto [x, y] = elements_of(used.rope.pairing, i, pairs);
      content.turning[head / of_row * pairs + i] +=
          Complex(a[first + x], a[first + y]) * std::conj(Complex(b[first + x], b[first + y])) * share;
    }
  }
  return content;
}

Content content_of(const PlotRequest& request, const PlottedRope& rope) {
  const Frequencies& f = rope.view.frequencies;
  return request.q.empty() ? random_content(*rope.used, f, request.seed) : given_content(request, *rope.used, f);
}

const char* content_note(const PlotRequest& request) {
  return request.q.empty() ? "q = k, 256 random unit vectors" : "each q with each k of its head, as unit vectors";
}

// ---- by distance ----

// Every distance as far as the picture can show them, or as the table of that many pairs stays small; then 400 in equal
// proportions, and the powers of two.
std::vector<std::int64_t> distances_to(std::int64_t last, std::size_t pairs) {
  constexpr std::size_t shown = 131072, entries = std::size_t{1} << 25;
  const auto all = static_cast<std::int64_t>(std::clamp<std::size_t>(entries / pairs, 1, shown));
  std::vector<std::int64_t> distances;
  for (std::int64_t distance = 1; distance <= std::min(last, all); ++distance) distances.push_back(distance);
  const double ratio = static_cast<double>(last) / static_cast<double>(all);
  for (int i = 1; i <= 400 && last > all; ++i) {
    const auto distance =
        static_cast<std::int64_t>(std::llround(static_cast<double>(all) * std::pow(ratio, i / 400.0)));
    distances.push_back(std::min(distance, last));
  }
  for (std::int64_t power = 2 * all; power <= last; power *= 2) distances.push_back(power);
  std::sort(distances.begin(), distances.end());
  distances.erase(std::unique(distances.begin(), distances.end()), distances.end());
  return distances;
}

struct Score {
  double mean = 0, low = 0, high = 0;
  double roformer = 0;  // sum of |S_j|
};

Score score_at(const Table& table, std::size_t row, const Content& content, double factor) {
  const std::size_t pairs = content.turning.size(), of_head = static_cast<std::size_t>(table.pairs());
  Complex sum = 0, first_pairs = 0;
  Score score;
  for (std::size_t i = 0; i < pairs; ++i) {
    const Complex turn(static_cast<double>(table.cos()[row * pairs + i]),
                       static_cast<double>(table.sin()[row * pairs + i]));
    sum += content.turning[i] * turn * factor;  // the turn holds the factor once
    first_pairs = (i % of_head == 0 ? 0 : first_pairs) + turn / factor;
    score.roformer += std::abs(first_pairs);
  }
  score.mean = content.still + sum.real();
  score.low = content.still - std::abs(sum);
  score.high = content.still + std::abs(sum);
  return score;
}

void add_rope(Figure& plot, const PlotRequest& request, const PlottedRope& rope,
              const std::vector<std::int64_t>& distances, bool alone) {
  const Frequencies f = relative(rope.view.frequencies);
  const Content content = content_of(request, rope);
  const Table table = table_on_every_axis(f, distances);
  const bool roformer = request.envelope == "roformer", area = alone && request.envelope == "sum";
  Line mean{.name = alone ? "mean score" : rope.name, .points = {}};
  Line edge{.name = area ? "envelope" : alone && roformer ? "RoFormer's bound, relative" : "", .points = {}};
  edge.faint = !alone;
  const double pairs = f.pairs(), at_zero = f.heads * pairs * (pairs + 1) / 2;
  for (std::size_t row = 0; row < distances.size(); ++row) {
    const auto x = static_cast<double>(distances[row]);
    const Score score = score_at(table, row, content, f.attention_factor);
    mean.points.emplace_back(x, score.mean);
    edge.points.emplace_back(x, roformer ? score.roformer / at_zero : score.high);
    if (area) edge.lower.push_back(score.low);
  }
  const bool mean_first = alone && !area;  // else the edge has the mean's colour
  if (mean_first) plot.lines.push_back(mean);
  if (request.envelope != "none") plot.lines.push_back(std::move(edge));
  if (!mean_first) plot.lines.push_back(std::move(mean));
}

}  // namespace

Figure decay_plot(const PlotRequest& request) {
  const auto [ropes, subject] = read_ropes(request, false);
  Figure plot;
  plot.title = "Mean score by distance" + subject;
  if (ropes.size() == 1 && (!request.source.scaling.empty() || !request.scalings.empty()))
    plot.title += ", " + ropes[0].name;
  plot.note = content_note(request);
  if (request.envelope == "sum")
    plot.note += "; envelope: |sum over pairs of the mean q conj(k) e^(i distance inv_freq)|";
  if (request.envelope == "roformer") plot.note += "; the sum of |S_j| of RoFormer's 3.4.3, 1 at distance 0";
  for (const PlottedRope& rope : ropes) {
    const double factor = rope.view.frequencies.attention_factor;
    if (factor == 1) continue;
    plot.note += "; " + (ropes.size() > 1 ? rope.name + " " : std::string()) + "times attention factor squared, " +
                 significant(factor * factor, 3);
  }
  plot.x_label = "distance, tokens";
  plot.y_label = "score of unit vectors";
  plot.log_x = true;
  std::int64_t last = 0;
  std::size_t pairs = 1;
  for (const PlottedRope& rope : ropes) {
    last = std::max(last, context_tokens(request, *rope.used));
    const Frequencies& f = rope.view.frequencies;
    pairs = std::max(pairs, static_cast<std::size_t>(f.heads * f.pairs()));
  }
  if (last < 2) last = 4096;
  const std::vector<std::int64_t> distances = distances_to(last, pairs);
  for (const PlottedRope& rope : ropes) add_rope(plot, request, rope, distances, ropes.size() == 1);
  std::vector<MarkedLength> marks = marked_lengths(request, ropes).marks;
  std::erase_if(marks, [last](const MarkedLength& mark) { return mark.tokens > static_cast<double>(last); });
  add_marks(plot, marks, false);
  plot.lines.push_back({.name = "", .points = {{1, 0}, {static_cast<double>(last), 0}}, .guide = true});
  return plot;
}

Figure patches_plot(const PlotRequest& request) {
  constexpr std::size_t most = 128;
  const PlottedRopes read = read_ropes(request, false);
  if (read.ropes.size() != 1) throw UsageError("plot patches draws one rope: name one CONFIG and one scaling");
  const RopeView& view = read.ropes[0].view;
  const Frequencies f = relative(view.frequencies);
  const std::vector<std::string>& names = view.axis_names;
  if (names.size() < 2)
    fail(Code::ROPE, "plot", "patches lie in rows and columns, by two axes of a rope, but this one has one axis");
  const auto named = [&](const char* name, std::size_t otherwise) {
    const auto found = std::find(names.begin(), names.end(), name);
    return found == names.end() ? otherwise : static_cast<std::size_t>(found - names.begin());
  };
  const std::size_t down = named("height", names.size() - 2), across = named("width", names.size() - 1);
  const PositionSet apart = parse_ranges(request.positions.value_or("-32:33"));
  const std::vector<std::int64_t>& steps = apart.integers;
  if (apart.open_from || steps.empty() || steps.size() > most)
    fail(Code::POSITION, "plot", "--positions must list 1 to ", most, " differences but got '",
         request.positions.value_or(""), "'");
  const std::size_t cells = steps.size() * steps.size();
  std::vector<double> coordinates(names.size() * cells);
  for (std::size_t cell = 0; cell < cells; ++cell) {
    coordinates[down * cells + cell] = static_cast<double>(steps[cell / steps.size()]) * request.step.value_or(1);
    coordinates[across * cells + cell] = static_cast<double>(steps[cell % steps.size()]) * request.step.value_or(1);
  }
  const Table table(f, Positions(std::move(coordinates), static_cast<int>(names.size())));
  const Content content = content_of(request, read.ropes[0]);
  Figure map;
  map.title = "Mean score of two patches" + read.subject;
  map.note = content_note(request);
  if (request.step) map.note += "; a patch is " + significant(*request.step, 6) + " of a coordinate";
  map.x_label = "columns between them, by axis " + names[across];
  map.y_label = "rows between them, by axis " + names[down];
  map.grid = {.value = "score", .limit = 0, .x = steps, .y = steps, .values = {}};
  for (std::size_t cell = 0; cell < cells; ++cell) {
    map.grid.values.push_back(score_at(table, cell, content, f.attention_factor).mean);
    map.grid.limit = std::max(map.grid.limit, std::abs(map.grid.values.back()));
  }
  return map;
}

}  // namespace rotary::cli
