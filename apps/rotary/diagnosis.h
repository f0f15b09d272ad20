// What rotary diagnose and rotary check share: their options, and what they ask.
#pragma once

#include <string>
#include <vector>

#include "rotary/diagnose.h"
#include "source.h"

namespace rotary::cli {

class Command;

// The options of both, and the tensors of two files.
struct DiagnosisOptions {
  Source source;
  diagnose::Request request;
  std::vector<std::string> tensors;
  unsigned threads = 0;  // all cores
  std::optional<ThreadPool> pool = {};
  bool json = false;
};
void add_diagnosis_options(Command&, DiagnosisOptions&);  // --tensor, --positions, --layout, --threads

// Reads the tensors of the two files; then the rope that the source describes, where it describes one, into the
// request.
std::vector<diagnose::TensorPair> read_question(DiagnosisOptions&, const std::string& before, const std::string& after);

}  // namespace rotary::cli
