// ROTARY_EXPERIMENTAL marks public functions and classes that are new on GPUs (docs/gpu.md lists the tests that ran).
// They are exported like the others, but any version may change or remove them.
#pragma once

#if defined(__GNUC__) || defined(__clang__)
#define ROTARY_EXPERIMENTAL __attribute__((visibility("default")))
#else
#define ROTARY_EXPERIMENTAL
#endif
