// ROTARY_API marks the symbols that the shared libraries export; all others are hidden.
#pragma once

#if !defined(_MSVC_LANG) && defined(__cplusplus) && __cplusplus < 201709L
#error "rotary needs C++20: compile with -std=c++20 or newer"
#endif

#if defined(__GNUC__) || defined(__clang__)
#define ROTARY_API __attribute__((visibility("default")))
#else
#define ROTARY_API
#endif
