// A diagnosis as rotary diagnose and rotary check print it.
#pragma once

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

// What is asked of each tensor. Throws what reading a config and positions throws.
class Asking {
 public:
  Asking(const DiagnosisRequest&, const std::vector<TensorPair>&);
  diagnose::Question question(const std::string& tensor) const;  // valid as long as this

 private:
  Model model_;
  diagnose::Question question_;
};

struct Diagnosed {
  std::vector<diagnose::NamedDiagnosis> tensors;
  diagnose::Diagnosis all;
};
Diagnosed diagnose_pairs(const std::vector<TensorPair>&, const Asking&);

void print_diagnosis(const Diagnosed&);

// verdict, sentence, the facts, and `tensors` where there are several.
nlohmann::ordered_json json_of(const Diagnosed&);

}  // namespace rotary::cli
