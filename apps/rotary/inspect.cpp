// rotary inspect: the ropes of a model pair by pair, or the tensors of a file.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/rotary/inspect/rope.h"
#include "apps/rotary/inspect/tensors.h"
#include "apps/shared/command.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "commands.h"
#include "files/tensors/formats.h"
#include "files/tensors/stream.h"
#include "rotary/config.h"
#include "source.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

struct Options {
  Source source;
  bool json = false;
};

void inspect_model(const Options& options) {
  check_source_without_tensor(options.source);
  const Model model = read_model(options.source, options.source.head_dim.value_or(0));
  std::vector<std::pair<std::size_t, RopeView>> views;
  for (const ModelRope& used : model.ropes) {
    const auto index = static_cast<std::size_t>(&used - model.ropes.data());
    const bool shown = !options.source.rope || &used == &chosen_rope(model, options.source);
    if (shown) views.emplace_back(index, view_rope(used, options.source.length));
  }
  if (options.json) {
    Json ropes = Json::array();
    for (const auto& [index, view] : views) ropes.push_back(json_of(view));
    std::cout << json_text({{"model_type", model.model_type}, {"ropes", std::move(ropes)}, {"notes", model.notes}})
              << '\n';
    return;
  }
  std::cout << (model.model_type.empty() ? "model_type not stated" : "model_type " + printable(model.model_type))
            << ", " << model.ropes.size() << (model.ropes.size() == 1 ? " rope\n" : " ropes\n");
  for (const auto& [index, view] : views) print_rope(view, index);
  if (!model.notes.empty()) std::cout << "\nnotes\n";
  for (const std::string& note : model.notes) std::cout << "  " << printable(note) << '\n';
}

// The tensors of a stream, if its first bytes are those of tensors.
bool inspect_stream(const Options& options) {
  std::vector<std::byte> whole = files::read_stream(options.source.config);
  if (!files::format_of(whole)) return false;
  inspect_tensors(options.source, options.json, std::move(whole));
  return true;
}

void run(const Options& options) {
  if (is_pipe(options.source.config)) {
    if (inspect_stream(options)) return;
    throw Error(Code::FORMAT, "[inspect] " + files::stream_name(options.source.config) +
                                  ": a stream must hold a safetensors file or an .npy but holds neither");
  }
  if (files::names_tensors(options.source.config)) {
    inspect_tensors(options.source, options.json);
  } else {
    inspect_model(options);
  }
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, "inspect", "Show the ropes of a model pair by pair, or the tensors in a file");
  add_source_options(command, options->source);
  add_head_dim_option(command, options->source);
  add_rope_option(command, options->source);
  command.added("--rope").help("that rope only, from 0 (default: all)");
  command.added("CONFIG").help(
      "a model's config.json or params.json, or its folder, or a .gguf file; or a .safetensors or .npy file");
  command.flag("--json", options->json, "as JSON, every double with 17 digits");
  command.footer(
      "Of each value, where it comes from: given (the key), the default of a model_type, derived (how).\n"
      "Per pair: inv_freq in radians per position, the wavelength in tokens, the turns over the context, and\n"
      "what scaling did: kept, blended (partly), stretched (by the whole factor), still (does not turn).\n"
      "  rotary inspect Llama-3.1-8B/\n"
      "  rotary inspect config.json --length 65536 --json\n"
      "  rotary inspect --base 10000 --pairing half --head-dim 128\n"
      "  rotary inspect qk.safetensors");
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
