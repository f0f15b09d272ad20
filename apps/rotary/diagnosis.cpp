#include "diagnosis.h"

#include "apps/shared/command.h"
#include "apps/shared/tensors.h"
#include "files/text/paths.h"

namespace rotary::cli {

void add_diagnosis_options(Command& command, DiagnosisOptions& options) {
  command.option("--tensor", options.tensors);
  add_positions_options(command, options.source);
  command.option("--layout", options.source.layout);
  command.option("--threads", options.threads);
}

std::vector<diagnose::TensorPair> read_question(DiagnosisOptions& options, const std::string& before,
                                                const std::string& after) {
  if (is_dash(files::path_of(before)) && is_dash(files::path_of(after)))
    throw UsageError("standard input holds one file: - can stand for one of the two");
  diagnose::Request& request = options.request;
  request.executor = &options.pool.emplace(options.threads);
  std::vector<diagnose::TensorPair> pairs =
      diagnose::read_pairs(request.operation, before, after, options.tensors);
  const Source& source = options.source;
  static_cast<Choice&>(request) = source;
  if (source.config.empty() && !source.base && source.inv_freq.empty()) return pairs;
  request.model = read_model(source, source.head_dim.value_or(tools::last_dimension(pairs.front().before)));
  return pairs;
}

}  // namespace rotary::cli
