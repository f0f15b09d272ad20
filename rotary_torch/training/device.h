// The device for tensors, from an argument of a command line.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace rotary_torch {

// "cpu" or "cuda". For a GPU it first loads torch's CUDA library, which nothing here links. operation is the word in
// brackets in error sentences. index: which GPU. Throws DEVICE, naming what is missing.
c10::Device open_device(const std::string& operation, const std::string& word, int index = 0);

}  // namespace rotary_torch
