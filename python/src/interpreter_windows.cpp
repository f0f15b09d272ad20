#include "interpreter.h"

#include <windows.h>

#include <algorithm>
#include <thread>

#include "python.h"

namespace rotary::python {

// In the library that PyLong_FromLong lies in: python3.dll forwards it to python311.dll, or whichever runs.
void* function_of_interpreter(const char* name) {
  constexpr DWORD by_address = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  HMODULE library = nullptr;
  if (GetModuleHandleExW(by_address, reinterpret_cast<LPCWSTR>(&PyLong_FromLong), &library) == 0) return nullptr;
  return reinterpret_cast<void*>(GetProcAddress(library, name));
}

unsigned usable_cores() { return std::max(1U, std::thread::hardware_concurrency()); }

void call_in_children(void (*)()) {}

}  // namespace rotary::python
