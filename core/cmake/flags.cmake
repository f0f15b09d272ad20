# rotary_flags: what our own code is compiled with. The same bits everywhere: no contraction (one rounding sequence on
# every target), and an engine's -ffast-math in CMAKE_CXX_FLAGS, which stands before these flags, is taken back.
# src/runtime/arithmetic.h says the same in the source, and refuses what it cannot take back.

add_library(rotary_flags INTERFACE)
if(MSVC AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # clang-cl drops flags in clang's own spelling
  set(cxx_flags /fp:precise /clang:-fno-fast-math /clang:-ffp-contract=off /W4 -Wconversion -Wshadow
                $<$<BOOL:${ROTARY_WERROR}>:/WX>)
elseif(MSVC)
  set(cxx_flags /fp:precise /W4 /utf-8 $<$<BOOL:${ROTARY_WERROR}>:/WX>)
else()
  # Sections: what links with --gc-sections, as the wheels do, leaves out each function that nothing calls, a fifteenth.
  # g++ lets no -fno-fast-math take back a part of -ffast-math that was asked for by its name.
  set(cxx_flags -fno-fast-math -fno-unsafe-math-optimizations -fno-associative-math -fno-reciprocal-math
                -fno-finite-math-only -fsigned-zeros -ffp-contract=off
                -ffunction-sections -fdata-sections
                -Wall -Wextra -Wconversion -Wshadow $<$<BOOL:${ROTARY_WERROR}>:-Werror>)
endif()
if(CMAKE_SIZEOF_VOID_P EQUAL 4 AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86|AMD64|i[3-6]86" AND NOT MSVC)
  list(APPEND cxx_flags -msse2 -mfpmath=sse)  # x87 computes in its own precision
endif()
# Code that nvcc writes around ours does not pass -Wconversion and -Wparentheses.
set(cuda_flags --fmad=false -Xcompiler=-fno-fast-math,-ffp-contract=off,-Wall,-Wextra,-Wshadow,-Wno-parentheses
               $<$<BOOL:${ROTARY_WERROR}>:-Werror=all-warnings>)
target_compile_options(rotary_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_flags}>"
                                              "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_flags}>")
target_compile_definitions(rotary_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:ROTARY_FP_CONTRACT_OFF=1>)
# g++ 12 to 14 take "literal" + string for overlapping or overlong copies (GCC bug 105651 and others like it).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15)
  target_compile_options(rotary_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow>")
endif()
