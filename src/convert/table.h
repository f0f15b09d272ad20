// Tables of cos and sin in files, from one form to another. No value is rounded.
#pragma once

#include "rotary/convert.h"

namespace rotary::conversion {

// Whether names of tensors say that the file has a table: cos and sin, cos_sin, cos_sin_cache or freqs_cis.
bool has_table(const std::vector<TensorInfo>&);

// Throws PAIRING, TENSOR, SHAPE, DTYPE, FILE, FORMAT.
ConvertResult convert_table(const ConvertRequest&);

}  // namespace rotary::conversion
