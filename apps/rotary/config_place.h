// Where a CONFIG lies: src/tools/config_place.h.
#pragma once

#include "tools/config_place.h"

namespace rotary::cli {

using tools::bytes_of_stream;
using tools::config_path;
using tools::config_text_at;
using tools::read_config_at;

}  // namespace rotary::cli
