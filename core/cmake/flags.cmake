# The flags of every part: the standard, the options of the build, rotary_flags and rotary_unity. Included once, by the
# CMakeLists.txt of the whole, or by core's where core is built alone.

cmake_dependent_option(ROTARY_THREADS "ThreadPool has threads; else it runs on the caller's" ON
                       "NOT CMAKE_SYSTEM_NAME STREQUAL WASI" OFF)
option(ROTARY_WERROR "Warnings are errors" OFF)
option(ROTARY_FAST_BUILD "Compile sources together" ON)
set(ROTARY_SANITIZE "" CACHE STRING "Sanitizers for everything, as in -fsanitize=VALUE")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_UNITY_BUILD OFF)  # but for what rotary_unity names
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
# Shared libraries export what ROTARY_API marks.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
# Text, not kernels: compiled a fifth sooner than with -O3, a third less to download.
set(rotary_text_optimization -Os)

if(ROTARY_SANITIZE)
  set(sanitize -fsanitize=${ROTARY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(ROTARY_SANITIZE MATCHES address)  # which sees these accesses too; they are a fifth of the time to compile
    list(APPEND sanitize -fno-sanitize=null,pointer-overflow,object-size)
  endif()
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${sanitize}>")
  add_link_options(-fsanitize=${ROTARY_SANITIZE})
endif()

# rotary_unity(TARGET): up to twelve of its sources are compiled as one, in 0.8 GB. It halves the time, but hides that a
# file lacks an include: the stage clang of scripts/test.sh, which has the core, and the preset dev build without it.
function(rotary_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ROTARY_FAST_BUILD})
endfunction()

# rotary_part(LIBRARY [LOWER]): the include folders of a part, in the folder of its CMakeLists.txt. Targets that link
# LIBRARY have include/; the part itself, its tests and the parts above it link LIBRARY_internal and have the whole
# folder. LOWER is the library below. No part has the folder of one above it: an include upward does not compile.
function(rotary_part library)
  target_compile_features(${library} PUBLIC cxx_std_20)
  target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
                                               $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  add_library(${library}_internal INTERFACE)
  target_include_directories(${library}_internal INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}
                                                            ${CMAKE_CURRENT_SOURCE_DIR}/include)
  foreach(lower IN LISTS ARGN)
    target_link_libraries(${library} PUBLIC ${lower})
    target_link_libraries(${library}_internal INTERFACE ${lower}_internal)
  endforeach()
  target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:rotary_flags> $<BUILD_INTERFACE:${library}_internal>)
  # Before 1.0 a minor number may change the interface (docs/embedding.md).
  set_target_properties(${library} PROPERTIES VERSION "${PROJECT_VERSION}"
                                              SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
endfunction()

# rotary_part_for_c(NAME LIBRARY): rotary::NAME, LIBRARY for C and for older C++, without the standard that it asks for.
function(rotary_part_for_c name library)
  add_library(rotary_${name} INTERFACE)
  add_library(rotary::${name} ALIAS rotary_${name})
  set_target_properties(rotary_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(rotary_${name} INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
                                                      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(rotary_${name} INTERFACE $<LINK_ONLY:${library}> ${ARGN})
endfunction()

# rotary_flags: what our own code is compiled with. The same bits everywhere: no contraction (one rounding sequence on
# every target), and an engine's -ffast-math in CMAKE_CXX_FLAGS, which stands before these flags, is taken back.
# core/runtime/arithmetic.h says the same in the source, and refuses what it cannot take back.

add_library(rotary_flags INTERFACE)
if(MSVC AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # clang-cl drops flags in clang's own spelling
  set(cxx_flags /fp:precise /clang:-fno-fast-math /clang:-ffp-contract=off /W4 -Wconversion -Wshadow
                $<$<BOOL:${ROTARY_WERROR}>:/WX>)
elseif(MSVC)
  set(cxx_flags /fp:precise /W4 /utf-8 $<$<BOOL:${ROTARY_WERROR}>:/WX>)
else()
  # Sections: what links with --gc-sections, as the wheels do, leaves out each function that nothing calls, a fifteenth.
  # g++ lets no -fno-fast-math take back a part of -ffast-math that was asked for by its name. A constant of one file is
  # no shadow over another's where both are compiled as one.
  set(cxx_flags -fno-fast-math -fno-unsafe-math-optimizations -fno-associative-math -fno-reciprocal-math
                -fno-finite-math-only -fsigned-zeros -ffp-contract=off
                -ffunction-sections -fdata-sections
                -Wall -Wextra -Wconversion $<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wshadow>
                $<$<BOOL:${ROTARY_WERROR}>:-Werror>)
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
  target_compile_options(rotary_flags INTERFACE
                         "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow>")
endif()
