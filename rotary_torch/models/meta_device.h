// Models of any size without their memory: what is made while a MetaDevice lives has shapes and no elements.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace rotary_torch {

// While it lives, torch's factory functions on this thread make tensors of the meta device. torch::nn modules take no
// device: this is how a 7B config becomes a module, to be counted, without 28 GB.
class MetaDevice {
 public:
  MetaDevice();

 private:
  c10::impl::IncludeDispatchKeyGuard guard_;
};

}  // namespace rotary_torch
