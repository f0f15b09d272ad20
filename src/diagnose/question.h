// One tensor of a diagnosis. The public functions, of several tensors, are in request.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rotary/diagnose.h"
#include "tools/subject.h"

namespace rotary::diagnose {

using tools::Role;
using tools::Subject;

// Shapes as make_sample takes them. Throws SHAPE and DTYPE, and SHAPE if the positions fit no layout.
Diagnosis diagnose(const Tensor& before, const Tensor& after, const Subject&);

// q.k before and after, [..., tokens of q, tokens of k]. A score depends on q, k and the distance of their tokens: at
// distance 0 it is kept, times the squared attention factor; and where one q and one k stand at all tokens, scores of
// one distance are the same.
Diagnosis diagnose_scores(const Tensor& before, const Tensor& after, const Subject&);

// Compares `against` with `input` rotated as the subject's rope asks, which must be there, in double precision: see
// diagnose::check. In the layout of the subject; without one in that which the rope's heads fit, and of several in the
// first without a difference. Throws as diagnose.
Checked check(const Tensor& input, const Tensor& against, const Subject&, std::optional<double> tolerance);

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
