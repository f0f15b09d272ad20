// rotary extend: plans a longer context, and writes the config.json for it.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "rotary/extend.h"
#include "shared/columns.h"
#include "shared/command.h"
#include "shared/terminal.h"
#include "shared/text.h"
#include "source.h"

namespace rotary::cli {

namespace {

struct ExtendOptions {
  Source source;
  extend::Request request;
  std::string write;
};

extend::Request request_of(const ExtendOptions& options) {
  extend::Request request = options.request;
  request.model = read_model(options.source, 0);
  request.name = options.source.config;
  request.config = config_text_at(options.source.config);
  request.options.pairing = options.source.pairing;
  request.options.model_type = options.source.model_type;
  return request;
}

// Prints lines of 100 columns. Those after the first are indented like its text, by 4 at least.
void print_lines(const std::string& before, const std::string& text) {
  const std::size_t indent = std::max<std::size_t>(before.size(), 4);
  std::cout << before << wrapped(in_locale(printable(text)), indent, 100) << '\n';
}

void print_fact(std::string_view name, const std::string& text) { print_lines(pad(name, 13), text); }

void print_config(const extend::MethodPlan& method, const std::string& part) {
  std::cout << '\n';
  print_lines("", scaling_text(method.method) + ", factor " + significant(method.factor, 10) + ", " + method.from +
                      ": in " + (part.empty() ? "" : part + " of ") + "config.json");
  if (method.changes.empty()) return print_lines("  ", "no change: the file has these values already");
  for (const extend::Change& change : method.changes) {  // whole members, which can be pasted
    const std::string member = "\"" + change.key.substr(change.key.rfind('.') + 1) + "\"";
    const char* comma = &change == &method.changes.back() ? "" : ",";
    print_lines("  ", change.after ? member + ": " + *change.after + comma : "without " + member);
  }
  constexpr std::size_t most = 500;  // LongRoPE's lists are too long for a command line: --output makes a folder
  if (method.overrides.empty() || method.overrides.size() > most) return;
  const bool renamed = std::ranges::any_of(method.changes, [](const extend::Change& change) {
    return change.key.ends_with("rope_scaling") && change.after;
  });
  std::cout << "\nvLLM or SGLang, without a change of the file"
            << (renamed ? " (since transformers 5 rope_scaling is called rope_parameters)\n" : "\n");
  print_lines("  ROPE=", in_shell_quotes(method.overrides));
  std::cout << "  " << method.vllm << "\n  " << method.sglang << '\n';
}

std::string publication_text(const extend::Publication& published) {
  return published.publisher + ": " + published.method + ", factor " + significant(published.factor, 6) + " over " +
         std::to_string(published.trained_length) + " tokens, for " + std::to_string(published.context) + " (" +
         published.source + ")" + (published.weights_known ? "" : ", for weights that this file does not show") +
         (published.caution.empty() ? "" : "; but " + published.caution);
}

void print_facts(const extend::Plan& plan) {
  std::cout << '\n';
  print_fact("lengths", std::to_string(plan.start.trained_length) + " tokens trained (" +
                            plan.start.trained_length_from + "), " + std::to_string(plan.context) +
                            " wanted: " + significant(plan.smallest_factor, 6) + " times as long");
  print_fact("published", plan.published ? publication_text(*plan.published) : "nothing known");
  constexpr double gibibyte = 1 << 30;
  if (plan.cache.bytes > 0)
    print_fact("KV cache",
               significant(static_cast<double>(plan.cache.bytes) / gibibyte, 3) + " GiB: " + plan.cache.assumes);
}

void print_methods(const extend::Plan& plan) {
  std::vector<Cells> rows = {{"method", "factor", "kept", "blended", "stretched", "cos and sin x"}};
  for (const extend::MethodPlan& method : plan.methods) {
    if (!method.refused.empty()) continue;
    Cells& row = rows.emplace_back(Cells{scaling_text(method.method), "-"});
    const extend::RopePlan& rope = method.ropes.front();
    row.back() = significant(method.factor, 6);
    for (const int pairs : {rope.kept, rope.blended, rope.stretched}) row.push_back(std::to_string(pairs));
    row.push_back(significant(rope.frequencies.attention_factor, 6));
  }
  std::cout << '\n' << Columns({{}, {true}, {true}, {true}, {true}, {true}}, 2, "  ").fit(rows).text(rows);
  for (const extend::MethodPlan& method : plan.methods)
    if (!method.refused.empty()) print_lines("  ", method.method + ": " + method.refused);
}

void print_plan(const extend::Plan& plan, const std::string& asked) {
  if (!plan.why.empty())
    print_fact("recommended", (plan.recommended.empty()        ? "none of these"
                               : plan.recommended == "default" ? "no scaling"
                                                               : plan.recommended) +
                                  ": " + plan.why);
  if (!plan.otherwise.empty()) print_fact("otherwise", plan.otherwise);
  const auto shown =
      std::ranges::find(plan.methods, asked.empty() ? plan.recommended : asked, &extend::MethodPlan::method);
  std::vector<std::string> warnings = plan.warnings;
  if (shown != plan.methods.end()) {
    print_config(*shown, plan.model.ropes[plan.extended.front()].part);
    warnings.insert(warnings.end(), shown->warnings.begin(), shown->warnings.end());
  }
  print_facts(plan);
  print_methods(plan);
  if (!warnings.empty()) std::cout << "\nwarnings\n";
  for (const std::string& warning : warnings) print_lines("  ", warning);
  if (!plan.written.empty())
    std::cout << "\nwritten: " << in_locale(plan.written) << "; put the weights and the tokenizer beside it\n";
}

void run(const ExtendOptions& options) {
  extend::Plan plan = extend::plan(request_of(options));
  if (!options.write.empty()) plan.written = extend::write(plan, options.write);
  asks_json() ? print_json(extend::to_json(plan)) : print_plan(plan, options.request.method);
}

}  // namespace

void add_extend(Command& command) {
  auto options = std::make_shared<ExtendOptions>();
  command.option("CONFIG,--config", options->source.config);
  command.option("--length", options->request.context);
  command.option("--scaling", options->request.method);
  command.option("--factor", options->request.factor);
  command.option("--trained-length,--original-max-position-embeddings", options->request.trained_length);
  command.option("--rope", options->request.rope);
  command.option("--pairing", options->source.pairing, parse_pairing);
  command.option("--model-type", options->source.model_type);
  command.option("--output", options->write);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
