#include "language_model.h"

#include <ATen/Parallel.h>

#include <iostream>

#include "apps/shared/command.h"
#include "apps/shared/text.h"
#include "rotary/error.h"

namespace rotary::cli {

rotary_torch::Decoder load_language_model(const char* operation, const std::filesystem::path& dir) {
  rotary_torch::LoadedDecoder loaded = rotary_torch::load_decoder(dir);
  for (const std::string& warning : loaded.warnings) std::cerr << "warning: " << printable(warning) << '\n';
  if (!loaded.has_head) {
    throw Error(Code::TENSOR, "[" + std::string(operation) + "] " + dir.string() +
                                  ": a language model must have a head but this checkpoint has only the trunk");
  }
  return loaded.model;
}

rotary_torch::Vocabulary read_characters(const char* operation, const std::filesystem::path& dir,
                                         const rotary_torch::DecoderConfig& config, const std::string& option) {
  const std::string where = "[" + std::string(operation) + "] " + dir.string() + ": ";
  const std::filesystem::path file = dir / "vocab.json";
  // Other families also have a vocab.json, but their tokens are not characters.
  if (config.model_type != "rotary_decoder" || !std::filesystem::exists(file)) {
    throw Error(Code::FILE, where + option +
                                " needs the characters of a model trained here (vocab.json) but this is a " +
                                config.model_type + " model without them: give ids with --ids");
  }
  rotary_torch::Vocabulary characters = rotary_torch::Vocabulary::read(file);
  if (characters.size() != config.vocabulary) {
    throw Error(Code::CONFIG_VALUE, where + "vocab.json must have the model's " + std::to_string(config.vocabulary) +
                                        " characters but has " + std::to_string(characters.size()));
  }
  return characters;
}

void add_threads_option(Command& command, std::optional<int>& threads) {
  command.option("--threads", threads, "threads to use (default: torch's own choice, all cores)")
      .range(1, 1024)
      .type_name("N");
}

void use_threads(const std::optional<int>& threads) {
  if (threads) at::set_num_threads(*threads);
}

}  // namespace rotary::cli
