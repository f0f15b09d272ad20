// Tensors in the memory of a CUDA device (rotary/gpu.h), where this file was built with CUDA (ROTARY_CUDA).
#pragma once

#include <vector>

#include "python.h"

namespace rotary::python {

// _gpu_built(), and _gpu_rotate(q, k, q_out, k_out, cos, sin, pairing, layout, first, backward, stream): k and k_out
// may be None; cos and sin are f32, contiguous, one column for each pair; stream is a cudaStream_t as an int, of the
// current device. Elements of a head before `first` are not written.
std::vector<PyMethodDef> gpu_methods();

}  // namespace rotary::python
