// The interface of librotary_torch_nccl.so (rotary_torch/nccl/nccl.cpp).
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

// NCCL among `size` ranks that meet in the store; the caller owns the reference.
extern "C" c10d::Backend* rotary_torch_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            std::chrono::milliseconds timeout);
