// Before a cell is timed on a CUDA device, what it leaves there is compared with the reference.
#pragma once

#include "device_work.h"

namespace rotary::cli::bench {

// Runs work, the cell's call, once and compares what it leaves, bit for bit, with the scalar reference on the host
// (without a table: within 1.1e-7 of angle); norm_append with its parts on the device bit for bit, and with double
// arithmetic within roundings. Throws CHECK. Returns the number of elements compared.
std::int64_t verify_on_device(const Cell&, const DeviceSet&, const DeviceInputs&, gpu::Stream, const Call& work);

// The rows of the table must have the bits of the CPU's.
std::int64_t verify_device_table(const Cell&, const DeviceInputs&, gpu::Stream);

}  // namespace rotary::cli::bench
