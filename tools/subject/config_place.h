// Where a CONFIG lies: a file, a folder, standard input, or a repository of the local Hugging Face cache.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rotary/config.h"

namespace rotary::tools {

// The bytes of a stream (is_pipe). It can be read once; a second call gives the same bytes. Unless it is a file of
// tensors, only as much as a config may have, and one byte more.
const std::vector<std::byte>& bytes_of_stream(const std::string& config);

// The path of what config names. A file or folder of that name comes first; then a repository id, "org/name" or
// "org/name@revision", is its snapshot in the cache: the folder HF_HUB_CACHE, else hub below HF_HOME, else
// ~/.cache/huggingface/hub. Nothing is downloaded. Throws FILE for an id that is not there, with the command that
// fetches it.
std::string config_path(const std::string& config);

// read_config of what config names. Of a folder whose weights rotary convert has converted, with their pairing. Of a
// stream only JSON is read. Throws as read_config does.
Model read_config_at(const std::string& config, const ConfigOptions&);

// The text of that config, as it lies in the file or came from the stream; "" of a GGUF file.
std::string config_text_at(const std::string& config);

}  // namespace rotary::tools
