// The commands of rotary-torch, and what they share: a language model of a folder, token ids in .npy files, --threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "rotary_torch/models/decoder.h"
#include "rotary_torch/training/text.h"

namespace rotary::cli {

class Command;

// Each registers a command: its options, its help, what it runs.
void add_train(Command& command);
void add_generate(Command& command);
void add_forward(Command& command);
void add_perplexity(Command& command);
void add_summary(Command& command);

// Loads the decoder in a folder and prints its warnings to stderr. Throws as load_decoder, and TENSOR if it has no
// head or is an encoder.
rotary_torch::Decoder load_language_model(const char* operation, const std::filesystem::path& dir);

// The characters of a run of `rotary-torch train` (vocab.json). option: the option that needs them, for the message.
// Throws FILE for a folder without them, such as one of Hugging Face, CONFIG_VALUE if their number is not the model's.
rotary_torch::Vocabulary read_characters(const char* operation, const std::filesystem::path& dir,
                                         const rotary_torch::DecoderConfig&, const std::string& option);

// int64 [batch, tokens] from integers of any width, at least one of them, each from 0 to vocabulary - 1. Throws FILE,
// FORMAT, DTYPE, SHAPE, VALUE; operation is the word in brackets.
at::Tensor read_ids(const char* operation, const std::filesystem::path& path, std::int64_t vocabulary);

// --window and --sinks. A window beyond factor trained lengths gives a warning on stderr. Throws as DecoderCache.
inline constexpr std::int64_t usual_sinks = 4;  // StreamingLLM's, arXiv 2309.17453
SlidingWindow sliding_window(const rotary_torch::DecoderConfig&, std::int64_t tokens, std::int64_t sinks,
                             double factor = 1);

// Prints warnings of a checkpoint to stderr.
void print_warnings(const std::vector<std::string>& warnings);

// --threads; by default the number that torch chooses.
void use_threads(const std::optional<int>& threads);

}  // namespace rotary::cli
