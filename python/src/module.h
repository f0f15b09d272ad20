// What the files of the module give to module.cpp: the functions of each.
#pragma once

#include <vector>

#include "python.h"
#include "rotary/config.h"

namespace rotary::python {

std::vector<PyMethodDef> checking_methods();  // _ask: checking.cpp
std::vector<PyMethodDef> tools_methods();     // _extend, _convert, _accuracy: tools.cpp
std::vector<PyMethodDef> rotate_methods();
std::vector<PyMethodDef> model_methods();

// What `source` names: ("text", JSON) or ("path", a file, folder or repository of the Hugging Face cache), or ("rope",
// rotary.Rope, first).
Model model_of(PyObject* source, PyObject* pairing);
ConfigOptions options_of(PyObject* pairing);  // that model_of reads with; pairing: null or None for none

// Without the GIL, between the steps of a long call: throws Raised where a signal asks Python to end it.
void heed_signals();
inline constexpr auto heed = [](auto...) { heed_signals(); };  // as a function that is told the progress

// _gpu_built(), and _gpu_rotate(q, k, q_out, k_out, cos, sin, pairing, layout, first, backward, stream): k and k_out
// may be None; cos and sin are f32, contiguous, one column for each pair; stream is a cudaStream_t as an int, of the
// current device. Elements of a head before `first` are not written.
std::vector<PyMethodDef> gpu_methods();

}  // namespace rotary::python
