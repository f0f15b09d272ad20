// ROTARY_EXPERIMENTAL marks public functions and classes that have not run on a GPU yet: they are exported like the
// others, but any version may change or remove them.
#pragma once

#if defined(__GNUC__) || defined(__clang__)
#define ROTARY_EXPERIMENTAL __attribute__((visibility("default")))
#else
#define ROTARY_EXPERIMENTAL
#endif
