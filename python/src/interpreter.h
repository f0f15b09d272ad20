// The interpreter that runs this module: interpreter_posix.cpp and interpreter_windows.cpp.
#pragma once

namespace rotary::python {

// A function of CPython's by its name; null where the interpreter has none.
void* function_of_interpreter(const char* name);

unsigned usable_cores();  // at least 1

// Has `forget` called in each child of fork(), where the system has it.
void call_in_children(void (*forget)());

}  // namespace rotary::python
