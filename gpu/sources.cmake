# rotary_gpu with CUDA: host code, and kernels. The tests compile all of it a second time, for the emulator.
set(rotary_gpu_host
  host/arguments.cpp
  host/device.cpp
  host/frequencies.cpp
  host/fused.cpp
  host/rotate.cpp
  host/shift.cpp
  host/table.cpp)
set(rotary_gpu_kernels
  kernels/rotate.cu
  kernels/shift.cu
  kernels/step.cu
  kernels/table.cu)
# rotary_gpu without CUDA.
set(rotary_gpu_absent
  host/absent.cpp
  host/arguments.cpp)
foreach(list rotary_gpu_host rotary_gpu_kernels rotary_gpu_absent)
  list(TRANSFORM ${list} PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
endforeach()
