// rotary extend: plans a longer context, and writes the config.json for it.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "apps/rotary/extend/page.h"
#include "apps/shared/command.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "config_place.h"
#include "extend/extend.h"
#include "files/text/paths.h"
#include "rotary/error.h"
#include "source.h"

namespace rotary::cli {

namespace {

namespace fs = std::filesystem;

struct Options {
  Source source;
  std::int64_t context = 0;
  std::string method;
  std::optional<double> factor;
  std::optional<std::int64_t> trained_length;
  std::optional<int> rope;
  std::string write;
  bool json = false;
};

[[noreturn]] void refuse_file(const std::string& sentence) { throw Error(Code::FILE, "[extend] " + sentence); }

// A word of a shell's command line.
std::string in_shell(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./@:+,").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string command_of(const Options& options) {
  std::string line =
      "rotary extend " + in_shell(options.source.config) + " --context " + std::to_string(options.context);
  if (!options.method.empty()) line += " --method " + options.method;
  if (options.factor) line += " --factor " + shortest(*options.factor);
  if (options.trained_length) line += " --trained-length " + std::to_string(*options.trained_length);
  if (options.rope) line += " --rope " + std::to_string(*options.rope);
  if (!options.source.pairing.empty()) line += " --pairing " + options.source.pairing;
  return line + " --write " + in_shell(options.write);
}

extend::Request request_of(const Options& options) {
  extend::Request request;
  request.model = read_model(options.source, 0);
  request.config = config_text_at(options.source.config);
  request.options.pairing = pairing_of(options.source);
  request.context = options.context;
  request.trained_length = options.trained_length;
  request.factor = options.factor;
  request.method = options.method;
  if (options.rope) request.rope = static_cast<std::size_t>(*options.rope);
  return request;
}

const extend::MethodPlan& method_to_write(const extend::Plan& plan) {
  const auto found = std::find_if(plan.methods.begin(), plan.methods.end(), [&](const extend::MethodPlan& method) {
    return plan.methods.size() == 1 || method.method == plan.recommended;
  });
  if (!found->unsaid.empty()) {
    refuse_file("--write must name a method that params.json can say but got " + found->method + ": " + found->unsaid);
  }
  if (found->config.empty()) {
    refuse_file(
        "--write needs a config.json or params.json to start from but CONFIG is a GGUF file: llama.cpp takes a plan as "
        "options, which are shown without --write");
  }
  return *found;
}

// Nothing that is there is replaced, and nothing is written before all is known to be right.
std::string write(const Options& options, const Model& model, const extend::Plan& plan, ExtendAsked asked) {
  const extend::MethodPlan& method = method_to_write(plan);
  const fs::path folder = files::path_of(options.write);
  const fs::path config = folder / method.file, note = folder / "rotary-extend.md";
  std::error_code error;
  for (const fs::path& path : {config, note}) {
    if (fs::exists(fs::symlink_status(path, error))) {
      refuse_file("--write must name a folder without " + files::path_text(path.filename()) + " but " +
                  files::in_quotes(files::path_text(path)) + " is there, and nothing is replaced");
    }
  }
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder, error)) {
    refuse_file("--write must be a folder, or a name at which one can be made, but got " +
                files::in_quotes(options.write));
  }
  asked.written = files::path_text(config);
  files::write_whole("extend", note, note_text(asked, model, plan, method));
  try {
    files::write_whole("extend", config, method.config);
  } catch (...) {
    fs::remove(note, error);
    throw;
  }
  return asked.written;
}

void run(const Options& options) {
  const extend::Request request = request_of(options);
  const extend::Plan plan = extend::plan(request);
  ExtendAsked asked{options.source.config, command_of(options), ""};
  if (!options.write.empty()) asked.written = write(options, request.model, plan, asked);
  if (options.json) {
    std::cout << json_text(json_of(asked, request.model, plan)) << '\n';
  } else {
    print_plan(asked, request.model, plan, !options.method.empty());
  }
}

}  // namespace

void add_extend(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, "extend", "Plan a longer context, and write the config.json for it");
  command
      .option("CONFIG", options->source.config,
              "a model's config.json or params.json, its folder, or a .gguf file;\n"
              "or a repository in the Hugging Face cache (Qwen/Qwen3-8B);\n"
              "or - for standard input")
      .type_name("")
      .required();
  command.option("--context", options->context, "tokens that the model shall take")
      .range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max())
      .type_name("N")
      .required();
  const auto known = extend::methods();
  command
      .option("--method", options->method,
              "linear, ntk, dynamic, yarn, llama3 or longrope: that one in depth\n"
              "(default: all side by side, and one recommended)")
      .one_of({known.begin(), known.end()})
      .type_name("NAME");
  command
      .option("--factor", options->factor, "instead of context / trained length, or of the published one: at least 1")
      .type_name("F");
  command
      .option("--trained-length", options->trained_length,
              "tokens that the model was trained on before any scaling, instead of\nwhat the config says")
      .type_name("L");
  command
      .option("--rope", options->rope,
              "a rope of the part of the model that is extended, from 0 as 'rotary\ninspect' counts (default: the "
              "first of a text)")
      .range(0, std::numeric_limits<int>::max())
      .type_name("N");
  command
      .option("--pairing", options->source.pairing,
              "of a model_type that is not known: half, interleaved or interleaved_to_half")
      .one_of({"half", "interleaved", "interleaved_to_half"})
      .type_name("WORD");
  command
      .option("--write", options->write,
              "make DIR with the new config.json or params.json, by the method named or\n"
              "recommended, and a note of what changed, rotary-extend.md. Nothing that is\nthere is replaced")
      .type_name("DIR");
  command.flag("--json", options->json, "as JSON, every double with 17 digits");
  command.footer(
      "Each method is planned from the trained length and the unscaled rope, put into the config, and read back.\n"
      "kept, blended, stretched: pairs, by what happens to their wavelength. attention: what cos and sin are\n"
      "multiplied by. first step, last step: radians between neighbouring tokens that the fastest and the slowest\n"
      "pair are left with. new angles: pairs that had not completed a turn in training and now go beyond the angle\n"
      "they had reached, and the largest such angle (a whole turn at most).\n"
      "  rotary extend Qwen2.5-7B-Instruct/ --context 131072\n"
      "  rotary extend config.json --context 65536 --method ntk\n"
      "  rotary extend Llama-3-8B/ --context 131072 --write Llama-3-8B-128k/");
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
