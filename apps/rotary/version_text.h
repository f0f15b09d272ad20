// What `rotary --version` prints.
#pragma once

#include <string>

namespace rotary::cli {

// "rotary X.Y.Z", then a line per part: instruction sets, gpu, torch, compiler. Asks rotary-torch where it is there.
std::string version_text();

}  // namespace rotary::cli
