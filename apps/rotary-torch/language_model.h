// Reads a folder for the commands that need a language model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "rotary_torch/models/decoder.h"
#include "rotary_torch/training/text.h"

namespace rotary::cli {

class Command;

// Loads the decoder in a folder and prints its warnings to stderr. Throws as load_decoder, and TENSOR if it has no
// head.
rotary_torch::Decoder load_language_model(const char* operation, const std::filesystem::path& dir);

// The characters of a run of `rotary train` (vocab.json). option: the option that needs them, for the message. Throws
// FILE for a folder without them, such as one of Hugging Face, CONFIG_VALUE if their number is not the model's.
rotary_torch::Vocabulary read_characters(const char* operation, const std::filesystem::path& dir,
                                         const rotary_torch::DecoderConfig&, const std::string& option);

// --threads; by default the number that torch chooses.
void add_threads_option(Command& command, std::optional<int>& threads);
void use_threads(const std::optional<int>& threads);

}  // namespace rotary::cli
