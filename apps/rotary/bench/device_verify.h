// Compares the results of a cell on a CUDA device with the reference, before it is timed.
#pragma once

#include "device_work.h"

namespace rotary::cli::bench {

// Runs work, the cell's call, once and compares the results with the scalar reference on the host: bit for bit, or
// without a table within 1.1e-7 of angle. norm_append is compared with its separate operations on the device bit for
// bit, and with double arithmetic within rounding errors. Throws CHECK. Returns the number of elements compared.
std::int64_t verify_on_device(const Cell&, const DeviceSet&, const DeviceInputs&, gpu::Stream, const Call& work);

// Compares the rows of the table with the CPU's bit for bit. Throws CHECK. Returns the number of pairs compared.
std::int64_t verify_device_table(const Cell&, const DeviceInputs&, gpu::Stream);

}  // namespace rotary::cli::bench
