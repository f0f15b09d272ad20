// A CONFIG that is read at its place (choice.h): a file, a folder, standard input, or a repository in the local Hugging
// Face cache.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rotary/config.h"

namespace rotary::tools {

// The bytes of a stream (is_pipe), which is read once: a second call returns the same bytes. Unless it is a file of
// tensors, at most the largest size of a config plus one byte is read.
const std::vector<std::byte>& bytes_of_stream(const std::string& config);

// Reads the config that `config` names; for a folder whose weights `rotary convert` has converted, with their pairing.
// A stream must be JSON. Throws what read_config throws.
Model read_config_at(const std::string& config, const ConfigOptions&);

}  // namespace rotary::tools
