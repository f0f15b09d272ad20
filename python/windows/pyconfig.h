// The facts of 64-bit Windows that Python.h needs, where a wheel is built elsewhere (scripts/wheel.sh): in place of
// this machine's. No more than the limited API looks at.
#pragma once

#define MS_WINDOWS 1
#define MS_WIN64 1
#define HAVE_DECLSPEC_DLL 1
#define Py_ENABLE_SHARED 1

#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_VOID_P 8
#define SIZEOF_WCHAR_T 2
#define SIZEOF_TIME_T 8
#define HAVE_SSIZE_T 1
#define HAVE_WCHAR_H 1
#define HAVE_SYS_STAT_H 1
