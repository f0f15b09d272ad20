// The variants of M-RoPE: position ids of models that see or hear.
#include "made.h"

namespace rotary::made {

Way find_variant(std::string_view) { return nullptr; }

}  // namespace rotary::made
