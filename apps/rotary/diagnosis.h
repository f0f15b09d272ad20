// A diagnosis as rotary diagnose and rotary check print it.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/diagnose.h"
#include "positions.h"
#include "source.h"

namespace rotary::cli {

// The tensors of two files that are compared: those of `names`, else q and k, else every tensor of both files that is
// of a float type and has two dimensions or more. An .npy has one. Throws TENSOR.
struct TensorPair {
  std::string name;  // empty for .npy
  Tensor before;
  Tensor after;
};
std::vector<TensorPair> tensor_pairs(const char* operation, const std::string& before, const std::string& after,
                                     const std::vector<std::string>& names);

// The rope that is asked and the positions. operation is the word in brackets in error sentences.
struct DiagnosisRequest {
  const char* operation = "diagnose";
  Source source;  // without a rope: only diagnose
  PositionRequest positions;
  std::string layout;
};
// --tensor, --positions, --layout.
void add_diagnosis_options(Command&, DiagnosisRequest&, std::vector<std::string>& tensors);

// What is asked of each tensor.
class Asking {
 public:
  // Throws what reading a config and positions throws.
  Asking(const DiagnosisRequest&, const std::vector<TensorPair>&);

  bool has_rope() const noexcept { return !ropes_.empty(); }
  // The ropes that can be meant: the one that --rope names; else those of heads as wide as the tensors' whose positions
  // fit, or the first.
  std::size_t ropes() const noexcept { return std::max<std::size_t>(1, ropes_.size()); }
  diagnose::Question question(const std::string& tensor, std::size_t rope) const;  // valid as long as this
  std::string rope_text(std::size_t rope) const;  // "rope 1 of 2"; empty where the model has one, or it was named

 private:
  struct Meant {
    const ModelRope* rope;
    std::optional<diagnose::GivenPositions> positions;
    bool places_unknown = false;
  };
  Model model_;
  bool named_ = true;
  diagnose::Question question_;
  std::vector<Meant> ropes_;
};

struct Diagnosed {
  std::vector<diagnose::NamedDiagnosis> tensors;
  diagnose::Diagnosis all;
};
// By the rope of which the least is wrong, where several can be meant.
Diagnosed diagnose_pairs(const std::vector<TensorPair>&, const Asking&);
// Of q.k before and after.
Diagnosed diagnose_scores(const std::vector<TensorPair>&, const Asking&);
// The layout that the tensors have by their heads, where they were found in several; else empty.
std::string settled_layout(const std::vector<TensorPair>&, const std::vector<std::string>& layouts, const Asking&,
                           std::size_t rope);

void print_diagnosis(const Diagnosed&);

// verdict, sentence, the facts, and `tensors` where there are several.
nlohmann::ordered_json json_of(const Diagnosed&);

// What rotary check --json prints.
nlohmann::ordered_json check_json(const DiagnosisRequest&, const std::vector<TensorPair>&,
                                  std::optional<double> tolerance);

}  // namespace rotary::cli
