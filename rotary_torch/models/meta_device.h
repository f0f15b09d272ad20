// Models of any size without their memory: tensors made while a MetaDevice lives have shapes but no elements.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace rotary_torch {

// While it lives, torch's factory functions on this thread make tensors of the meta device. torch::nn modules take no
// device argument; with this, a module of a 7B config can be made and counted without 28 GB.
class MetaDevice {
 public:
  MetaDevice();

 private:
  c10::impl::IncludeDispatchKeyGuard guard_;
};

}  // namespace rotary_torch
