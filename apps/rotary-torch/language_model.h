// A folder as the commands that need a language model read it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "rotary_torch/models/decoder.h"
#include "rotary_torch/training/text.h"

namespace CLI {
class App;
}

namespace rotary::cli {

// The decoder in a folder, its warnings on stderr. Throws as load_decoder, and TENSOR where it has no head.
rotary_torch::Decoder load_language_model(const char* operation, const std::filesystem::path& dir);

// The characters of a run of `rotary train` (vocab.json). option: what of the command line needs them. Throws FILE for
// a folder that has none, as those of Hugging Face, CONFIG_VALUE where they are not as many as the model's ids.
rotary_torch::Vocabulary read_characters(const char* operation, const std::filesystem::path& dir,
                                         const rotary_torch::DecoderConfig&, const std::string& option);

// --threads; torch's own number where it is not given.
void add_threads_option(CLI::App& command, std::optional<int>& threads);
void use_threads(const std::optional<int>& threads);

}  // namespace rotary::cli
