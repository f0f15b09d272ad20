// rotary diagnose: what somebody's rotation did to a tensor.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "diagnosis.h"

namespace rotary::cli {

namespace {

struct Options {
  DiagnosisRequest request;
  std::string before;
  std::string after;
  std::vector<std::string> tensors;
  bool json = false;
};

void run(const Options& options) {
  const std::vector<TensorPair> pairs = tensor_pairs(options.before, options.after, options.tensors);
  const Diagnosed diagnosed = diagnose_pairs(pairs, options.request);
  if (options.json) {
    std::cout << json_text(json_of(diagnosed)) << '\n';
    return;
  }
  std::cout << printable(diagnosed.all.sentence) << '\n';
}

}  // namespace

void add_diagnose(CLI::App& app) {
  auto options = std::make_shared<Options>();
  DiagnosisRequest& request = options->request;
  Command command(app, "diagnose", "Find out what a rotation did to a tensor, and what is wrong with it");
  command.option("--before", options->before, "the tensors before").type_name("FILE").required();
  command.option("--after", options->after, "the tensors after").type_name("FILE").required();
  command.option("--tensor", options->tensors, "the tensors").type_name("NAME");
  command.option("--config", request.source.config, "the model").type_name("CONFIG");
  command.option("--positions", request.positions, "positions").type_name("SPEC");
  command.option("--layout", request.layout, "layout").type_name("WORD");
  add_rope_option(command, request.source);
  command.option("--pairing", request.source.pairing, "pairing").type_name("WORD");
  command.option("--length", request.source.length, "length").type_name("N");
  command.flag("--json", options->json, "as JSON, every double with 17 digits");
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
