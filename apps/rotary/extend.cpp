// rotary extend: plans a longer context, and writes the config.json for it.
#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <numbers>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "apps/rotary/inspect/shown.h"
#include "apps/shared/columns.h"
#include "apps/shared/command.h"
#include "apps/shared/program.h"
#include "apps/shared/terminal.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "extend/steps.h"
#include "rotary/extend.h"
#include "source.h"
#include "tools/config_place.h"

namespace rotary::cli {

namespace {

constexpr double circle = 2 * std::numbers::pi;  // radians of a turn

struct ExtendOptions {
  Source source;
  extend::Request request;
  std::optional<int> rope;
  std::string write;
  bool json = false;
};

extend::Request request_of(const ExtendOptions& options) {
  extend::Request request = options.request;
  request.model = read_model(options.source, 0);
  request.name = options.source.config;
  request.config = tools::config_text_at(options.source.config);
  request.options.pairing = pairing_of(options.source);
  if (options.rope) request.rope = static_cast<std::size_t>(*options.rope);
  return request;
}

// ---- text ----

constexpr std::size_t columns_of_page = 100;

// In lines that fit; the further ones are indented as the first one's text, and by 4 at least.
void print_lines(const std::string& before, const std::string& text) {
  const std::size_t indent = std::max<std::size_t>(before.size(), 4);
  std::cout << before << wrapped(in_locale(printable(text)), indent, columns_of_page) << '\n';
}

std::string new_angles(const extend::RopePlan& rope) {
  if (rope.pairs_with_new_angles == 0) return "none";
  return counted(static_cast<std::size_t>(rope.pairs_with_new_angles), "pair") + ", to " +
         significant(rope.largest_unseen_angle, 4);
}

Cells cells_of(const extend::MethodPlan& method) {
  if (!method.refused.empty()) return {method.method, "-"};
  const extend::RopePlan& rope = method.ropes.front();
  return {method.method,
          significant(method.factor, 6),
          std::to_string(rope.count("kept")),
          std::to_string(rope.count("blended")),
          std::to_string(rope.count("stretched")),
          significant(rope.frequencies.attention_factor, 6),
          significant(rope.largest_step, 4),
          significant(rope.smallest_step, 4),
          new_angles(rope)};
}

void print_methods(const extend::Plan& plan) {
  std::vector<Cells> rows = {
      {"method", "factor", "kept", "blended", "stretched", "attention", "first step", "last step", "new angles"}};
  for (const extend::MethodPlan& method : plan.methods) rows.push_back(cells_of(method));
  const Columns aligned = Columns({{}, {true}, {true}, {true}, {true}, {true}, {true}, {true}, {}}, 2, "  ").fit(rows);
  std::cout << '\n';
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool best = i > 0 && plan.methods[i - 1].method == plan.recommended;
    std::cout << painted(aligned.line(rows[i]), best ? Colour::green : Colour::none) << '\n';
  }
  for (const extend::MethodPlan& method : plan.methods) {
    if (!method.refused.empty()) print_lines("  ", method.method + ": " + method.refused);
  }
}

void print_pairs(const extend::Plan& plan, const extend::RopePlan& rope) {
  std::vector<Cells> rows = {{"pair", "wavelength", "turns trained", "wavelength", "turns", "step", "new angle"}};
  for (std::size_t i = 0; i < rope.pairs.size(); ++i) {
    const extend::PairPlan& pair = rope.pairs[i];
    const bool moves = pair.inv_freq != 0;
    rows.push_back({std::to_string(i), moves ? significant(circle / pair.unscaled, 6) : "-",
                    significant(static_cast<double>(plan.trained_length) * pair.unscaled / circle, 4),
                    moves ? significant(circle / pair.inv_freq, 6) : "-",
                    significant(static_cast<double>(plan.context) * pair.inv_freq / circle, 4),
                    significant(pair.inv_freq, 4),
                    pair.sees_new_angles ? significant(std::min(pair.angle, circle), 4) : "-"});
  }
  const Columns aligned = Columns({{true}, {true}, {true}, {true}, {true}, {true}, {true}}, 2, "  ").fit(rows);
  std::cout << "\n" << aligned.line(rows.front()) << "  scaling\n";
  for (std::size_t i = 0; i < rope.pairs.size(); ++i) {
    const extend::PairPlan& pair = rope.pairs[i];
    const bool changed = pair.inv_freq != 0 && pair.effect != "kept";
    const std::string effect = std::string(pair.effect) + (changed ? " x " + significant(pair.stretch, 6) : "");
    std::cout << aligned.line(rows[i + 1]) << "  " << painted(effect, colour_of(pair.effect)) << '\n';
  }
}

std::string rope_text(const ModelRope& used) {
  std::string text = used.part.empty() ? "" : used.part + ", ";
  text += counted(used.layers.size(), "layer") + ", ";
  text += counted(static_cast<std::size_t>(used.rope.rotary_dim / 2), "pair") + " of heads of " +
          std::to_string(used.rope.head_dim);
  return text + ", base " + significant(used.rope.base, 10);
}

void print_fact(std::string_view name, const std::string& text) { print_lines(pad(name, 13), text); }

std::string bytes_text(std::int64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  return mebibytes < 1024 ? significant(mebibytes, 3) + " MiB" : significant(mebibytes / 1024, 3) + " GiB";
}

void print_facts(const extend::Plan& plan) {
  std::cout << '\n';
  print_fact("model_type", plan.model.model_type.empty() ? "not stated" : plan.model.model_type);
  for (const std::size_t i : plan.extended) print_fact("rope " + std::to_string(i), rope_text(plan.model.ropes[i]));
  print_fact("lengths",
             std::to_string(plan.trained_length) + " tokens trained (" + plan.trained_length_from + "), " +
                 std::to_string(plan.context) + " wanted" +
                 (plan.smallest_factor > 1 ? ": " + significant(plan.smallest_factor, 6) + " times as long" : ""));
  print_fact("published", plan.published ? extend::text_of(*plan.published) : "nothing known");
  if (plan.cache.bytes == 0) return;
  print_fact("KV cache", bytes_text(plan.cache.bytes) + " for a sequence of " + std::to_string(plan.context) +
                             " tokens: " + plan.cache.assumes);
}

void print_head(const extend::Plan& plan, const std::string& asked) {
  if (!asked.empty() && asked != plan.recommended) print_fact("asked for", asked);
  if (!plan.why.empty())
    print_fact("recommended", (plan.recommended.empty() ? "none of these" : plan.recommended) + ": " + plan.why);
  if (!plan.otherwise.empty()) print_fact("otherwise", plan.otherwise);
}

// What goes into the file: each member whole, to be pasted.
void print_members(const extend::MethodPlan& method) {
  for (const extend::Change& change : method.changes) {
    const std::string key = "\"" + change.key.substr(change.key.rfind('.') + 1) + "\"";
    const char* comma = &change == &method.changes.back() ? "" : ",";
    print_lines("  ", change.after ? key + ": " + extend::one_line(*change.after) + comma : "without " + key);
  }
}

void print_config(const extend::MethodPlan& method) {
  const std::string key = method.changes.empty() ? "" : method.changes.front().key;
  const std::string part = key.substr(0, key.find('.') == key.npos ? 0 : key.rfind('.'));
  std::cout << '\n';
  print_lines("", method.method + ", factor " + significant(method.factor, 10) + ", " + method.from +
                      (method.file.empty() ? ": the options of llama.cpp"
                                           : ": in " + (part.empty() ? "" : part + " of ") + method.file));
  if (method.file.empty()) print_lines("  ", method.llama_cpp.empty() ? "no options say it" : method.llama_cpp);
  if (!method.unsaid.empty()) print_lines("  ", "params.json cannot say it: " + method.unsaid);
  if (method.changes.empty() && !method.config.empty()) print_lines("  ", "nothing changes: the file says it already");
  print_members(method);
  if (method.config.empty())
    print_lines("  ", "as transformers 5 has it: \"rope_parameters\": " + method.rope_parameters);
  constexpr std::size_t most = 500;  // LongRoPE's lists: the folder that --output makes is served instead
  if (method.overrides.empty() || method.overrides.size() > most || method.changes.empty()) return;
  std::cout << "\nvLLM or SGLang, without a change of the file\n";
  print_lines("  ROPE=", in_shell_quotes(method.overrides));
  std::cout << "  " << method.vllm << "\n  ";
  const std::size_t split = method.sglang.rfind(" --");
  std::cout << method.sglang.substr(0, split) << " \\\n   " << method.sglang.substr(split) << '\n';
}

void print_plan(const extend::Plan& plan, bool in_depth) {
  const auto shown = std::find_if(plan.methods.begin(), plan.methods.end(), [&](const extend::MethodPlan& method) {
    return in_depth || method.method == plan.recommended;
  });
  print_head(plan, in_depth ? plan.methods.front().method : "");
  if (shown != plan.methods.end()) print_config(*shown);
  print_facts(plan);
  print_methods(plan);
  std::vector<std::string> warnings = plan.warnings;
  if (shown != plan.methods.end()) {
    warnings.insert(warnings.end(), shown->warnings.begin(), shown->warnings.end());
    for (std::size_t i = 0; in_depth && i < shown->ropes.size(); ++i) print_pairs(plan, shown->ropes[i]);
  }
  if (!warnings.empty()) std::cout << '\n' << painted("warnings", Colour::bold) << '\n';
  for (const std::string& warning : warnings) print_lines("  ", warning);
  if (!plan.written.empty()) std::cout << "\nwritten: " << in_locale(plan.written) << '\n';
}

// What print prints, for a file.
std::string printed(const std::function<void()>& print) {
  std::ostringstream text;
  std::streambuf* const out = std::cout.rdbuf(text.rdbuf());
  print();
  std::cout.rdbuf(out);
  std::string plain = text.str();  // without colours
  for (std::size_t at = plain.find('\x1b'); at != plain.npos; at = plain.find('\x1b', at))
    plain.erase(at, plain.find('m', at) + 1 - at);
  return plain;
}

void run(const ExtendOptions& options) {
  extend::Plan plan = extend::plan(request_of(options));
  const auto print = [&] { print_plan(plan, !options.request.method.empty()); };
  if (!options.write.empty()) {
    plan.written = extend::write(plan, options.write,
                                 "# A longer context, planned by rotary extend\n\n    " + command_text() + "\n\n```\n" +
                                     printed(print) + "```\n");
  }
  if (options.json) {
    std::cout << with_version(extend::to_json(plan)) << '\n';
  } else {
    print();
  }
}

}  // namespace

void add_extend(CLI::App& app) {
  auto options = std::make_shared<ExtendOptions>();
  Command command(app, "extend");
  command.option("CONFIG,--config", options->source.config);
  command.option("--length", options->request.context);
  const auto known = extend::methods();
  command.option("--scaling", options->request.method, {known.begin(), known.end()});
  command.option("--factor", options->request.factor);
  command.option("--trained-length,--original-max-position-embeddings", options->request.trained_length);
  command.option("--rope", options->rope);
  command.option("--pairing", options->source.pairing);
  command.option("--output", options->write);
  command.option("--json", options->json);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
