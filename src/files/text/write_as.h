// Writing a file that will have another name in the end, as one of a folder that is renamed when it is whole.
#pragma once

#include "io.h"

namespace rotary::files {

// write_whole of io.h; error sentences name `shown`.
void write_whole_as(const char* operation, const std::filesystem::path& path, const std::filesystem::path& shown,
                    const std::function<void(const Sink&)>& produce);

}  // namespace rotary::files
