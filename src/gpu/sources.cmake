# rotary_gpu with CUDA: host code, and kernels. The tests compile all of it a second time, for the emulator.
set(rotary_gpu_host src/gpu/api.cpp src/gpu/cache.cpp src/gpu/frequencies.cpp src/gpu/fused.cpp src/gpu/measure.cpp
                    src/gpu/plain.cpp src/gpu/table.cpp src/gpu/verbs.cpp)
set(rotary_gpu_kernels src/gpu/measure.cu src/gpu/rotate.cu src/gpu/step.cu src/gpu/table.cu)
# And without.
set(rotary_gpu_absent src/gpu/absent.cpp src/gpu/measure_absent.cpp src/gpu/plain.cpp)
foreach(list rotary_gpu_host rotary_gpu_kernels rotary_gpu_absent)
  list(TRANSFORM ${list} PREPEND ${PROJECT_SOURCE_DIR}/)
endforeach()
