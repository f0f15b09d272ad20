# ROTARY_CUDA: nvcc as a compiler of this project.

# CUDACXX, as CMake takes it, else where nvcc usually is.
if(NOT CMAKE_CUDA_COMPILER)
  if(NOT "$ENV{CUDACXX}" STREQUAL "")
    find_program(rotary_nvcc NAMES $ENV{CUDACXX} NO_CACHE)
    if(NOT rotary_nvcc)
      message(FATAL_ERROR "CUDACXX must name nvcc but there is no program '$ENV{CUDACXX}'")
    endif()
  else()
    file(GLOB rotary_cuda_folders /usr/local/cuda /usr/local/cuda-* /opt/cuda)
    find_program(rotary_nvcc nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS ${rotary_cuda_folders} PATH_SUFFIXES bin
                 NO_CACHE)
    if(NOT rotary_nvcc)
      message(FATAL_ERROR "ROTARY_CUDA needs nvcc, but none is on PATH, in CUDA_HOME or in /usr/local/cuda*: install "
                          "the CUDA toolkit or set CUDACXX")
    endif()
  endif()
  set(CMAKE_CUDA_COMPILER ${rotary_nvcc})
endif()
if(NOT CMAKE_CUDA_HOST_COMPILER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()

# Ampere, Hopper and both Blackwells, as far as this nvcc knows them; PTX of the newest for what comes after, and of
# Hopper for what lies between (11.0, which 12.0 does not serve).
if(NOT CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE rotary_known ERROR_QUIET)
  set(rotary_architectures)
  foreach(architecture 80 90 100 120)
    if(rotary_known MATCHES "compute_${architecture}\n")
      list(APPEND rotary_architectures ${architecture}-real)
      set(rotary_newest ${architecture}-virtual)
    endif()
  endforeach()
  if(NOT rotary_newest)
    message(FATAL_ERROR "ROTARY_CUDA needs an nvcc that compiles for compute capability 8.0 or newer but "
                        "${CMAKE_CUDA_COMPILER} --list-gpu-arch names none")
  endif()
  list(APPEND rotary_architectures 90-virtual ${rotary_newest})
  list(REMOVE_DUPLICATES rotary_architectures)
  set(CMAKE_CUDA_ARCHITECTURES "${rotary_architectures}" CACHE STRING "CUDA architectures" FORCE)
endif()

enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
