# rotary_gpu with CUDA: host code, and kernels. The tests compile all of it a second time, for the emulator.
set(rotary_gpu_host
  src/gpu/host/arguments.cpp
  src/gpu/host/device.cpp
  src/gpu/host/frequencies.cpp
  src/gpu/host/fused.cpp
  src/gpu/host/rotate.cpp
  src/gpu/host/shift.cpp
  src/gpu/host/table.cpp)
set(rotary_gpu_kernels
  src/gpu/kernels/rotate.cu
  src/gpu/kernels/shift.cu
  src/gpu/kernels/step.cu
  src/gpu/kernels/table.cu)
# rotary_gpu without CUDA.
set(rotary_gpu_absent
  src/gpu/host/absent.cpp
  src/gpu/host/arguments.cpp)
foreach(list rotary_gpu_host rotary_gpu_kernels rotary_gpu_absent)
  list(TRANSFORM ${list} PREPEND ${PROJECT_SOURCE_DIR}/)
endforeach()
