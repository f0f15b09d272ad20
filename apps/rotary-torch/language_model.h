// What the commands share: a language model of a folder, token ids in .npy files, --threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "rotary_torch/models/decoder.h"
#include "rotary_torch/training/text.h"

namespace rotary::cli {

class Command;

// Whether the config.json of a folder is a RoFormer's; otherwise it may be a Decoder's. Throws FILE, JSON.
bool is_roformer(const char* operation, const std::filesystem::path& dir);

// Loads the decoder in a folder and prints its warnings to stderr. Throws as load_decoder, and TENSOR if it has no
// head.
rotary_torch::Decoder load_language_model(const char* operation, const std::filesystem::path& dir);

// The characters of a run of `rotary train` (vocab.json). option: the option that needs them, for the message. Throws
// FILE for a folder without them, such as one of Hugging Face, CONFIG_VALUE if their number is not the model's.
rotary_torch::Vocabulary read_characters(const char* operation, const std::filesystem::path& dir,
                                         const rotary_torch::DecoderConfig&, const std::string& option);

// int64 [batch, tokens] from integers of any width, at least one of them, each from 0 to vocabulary - 1. Throws FILE,
// FORMAT, DTYPE, SHAPE, VALUE; operation is the word in brackets.
at::Tensor read_ids(const char* operation, const std::filesystem::path& path, std::int64_t vocabulary);

// max_position_embeddings; 0: not known.
std::int64_t trained_length(const rotary_torch::DecoderConfig&);

// --window and --sinks. A window beyond factor trained lengths gives a warning on stderr. Throws as DecoderCache.
inline constexpr std::int64_t usual_sinks = 4;  // StreamingLLM's, arXiv 2309.17453
SlidingWindow sliding_window(const rotary_torch::DecoderConfig&, std::int64_t tokens, std::int64_t sinks,
                             double factor = 1);

// --threads; by default the number that torch chooses.
void add_threads_option(Command& command, std::optional<int>& threads);
void use_threads(const std::optional<int>& threads);

}  // namespace rotary::cli
