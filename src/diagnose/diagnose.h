// What a rotation did to a tensor, and how that differs from what a model asks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "precision.h"
#include "rotary/config.h"
#include "rotary/tensors.h"

namespace rotary::diagnose {

enum class Verdict : std::uint8_t {
  as_configured,
  pairing,
  direction,
  offset,
  positions,
  base,
  scaling,
  block,
  layout,
  attention_factor,
  precision,
  twice,
  some_heads,
  axis,
  not_rotated,
  cannot_tell,
};
const char* name(Verdict) noexcept;

// Each is empty where the data do not determine it.
struct Facts {
  std::optional<std::string> pairing;  // as name(Kind)
  std::optional<bool> clockwise;
  std::optional<int> first;
  std::optional<int> rotary_dim;
  std::vector<std::vector<double>> positions;  // of each batch row; one row where all are alike. Of axis 0
  std::vector<double> inv_freq;                // radians per position, one per pair
  std::vector<std::uint8_t> axis;              // per pair; empty where there is one axis
  std::optional<double> base;
  std::optional<Scaling> scaling;
  std::optional<double> attention_factor;
  std::optional<Precision> precision;
  std::string layout;               // "bthd"
  std::vector<std::int64_t> heads;  // those that rotate
};

struct Diagnosis {
  Verdict verdict = Verdict::cannot_tell;
  std::string sentence;  // names the tensor: "k is rotated in the interleaved pairing; the model uses half"
  std::vector<std::string> findings;  // everything that differs, likeliest first
  Facts facts;
  double residual = 0;  // rms of what the facts leave unexplained, relative
};

// The position of every token, row-major [axes, batch, tokens].
struct GivenPositions {
  std::vector<double> values;
  int axes = 1;
  std::int64_t batch = 1;
  std::int64_t tokens = 0;
  std::optional<double> open_from = {};  // of one axis and row: behind the values open_from, open_from + 1, ...
};

enum class Role : std::uint8_t { unknown, query, key };
// "q", "xq", "layers.0.q_proj" are queries, "k", "key" are keys.
Role role_of(std::string_view tensor) noexcept;

struct Question {
  const ModelRope* rope = nullptr;          // none: nothing says what is asked
  std::optional<std::int64_t> length;       // for scalings that depend on it; none: the largest position + 1
  std::optional<GivenPositions> positions;  // none: with a rope of tokens in a text 0, 1, 2, ...; else unknown
  bool places_unknown = false;              // no positions, and the rope does not count tokens: coordinates of images
  std::string layout;                       // empty: found
  std::string
      layout_of_heads;        // the layout that the heads of all tensors of a file fit; empty: those of this one decide
  Role role = Role::unknown;  // whose heads the tensor's are to be
};

// Shapes as make_sample takes them. Throws SHAPE and DTYPE, and SHAPE if the positions fit no layout.
Diagnosis diagnose(const Tensor& before, const Tensor& after, const Question&);

// q.k before and after, [..., tokens of q, tokens of k]. A score depends on q, k and the distance of their tokens: at
// distance 0 it is kept, times the squared attention factor; and where one q and one k stand at all tokens, scores of
// one distance are the same.
Diagnosis diagnose_scores(const Tensor& before, const Tensor& after, const Question&);

// A diagnosis and the tensor that it is of.
struct NamedDiagnosis {
  std::string name;
  Diagnosis diagnosis;
};
// The layout in which the rope's heads fit the most tensors, of those that were found; empty if there is none best, or
// one alone was found.
struct FoundLayout {
  std::string layout;
  Role role = Role::unknown;
  std::vector<std::int64_t> shape;
};
std::string settled_layout(const std::vector<FoundLayout>&, const ModelRope&);

// One diagnosis of several tensors: the worst verdict, with a sentence that says which tensors it is about.
Diagnosis combine(const std::vector<NamedDiagnosis>& tensors);

}  // namespace rotary::diagnose
