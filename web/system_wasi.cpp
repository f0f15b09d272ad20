// system.h in the page: output goes to a text, and there is no file of the program.
#include "shared/system.h"

namespace rotary::cli {

std::optional<std::size_t> terminal_columns() { return columns_asked(); }

void prepare_streams() {}

std::filesystem::path program_path() { return {}; }

}  // namespace rotary::cli
