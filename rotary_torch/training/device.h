// Where tensors live, by the word of a command line.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace rotary_torch {

// "cpu", or "cuda": a GPU, whose part of torch is loaded first, since nothing here links it. operation is the word in
// brackets. index: which GPU. Throws DEVICE, with what is missing.
c10::Device open_device(const std::string& operation, const std::string& word, int index = 0);

}  // namespace rotary_torch
