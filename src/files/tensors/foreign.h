// Files that are not what their name says.
#pragma once

#include <string>

#include "files/text/io.h"

namespace rotary::files {

// What the file's first bytes show it to be, for error sentences: "a zip archive, as .npz and PyTorch's .pt are".
// Empty: nothing that is known.
std::string known_content(const InputFile&);

}  // namespace rotary::files
