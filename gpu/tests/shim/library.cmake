# rotary_gpu_emulated: rotary_gpu with its kernels run on the CPU. Each .cu is compiled by way of a .cpp that includes
# it; the CUDA headers are those of this folder.
set(shim ${CMAKE_CURRENT_LIST_DIR})
set(kernels)
foreach(kernel IN LISTS rotary_gpu_kernels)
  get_filename_component(name ${kernel} NAME_WE)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/gpu_emulated/${name}_cu.cpp
       CONTENT "#include \"${kernel}\"\n" @ONLY)
  list(APPEND kernels ${CMAKE_CURRENT_BINARY_DIR}/gpu_emulated/${name}_cu.cpp)
endforeach()
file(GLOB shim_sources CONFIGURE_DEPENDS ${shim}/*.cpp)
add_library(rotary_gpu_emulated STATIC ${rotary_gpu_host} ${kernels} ${shim_sources})
target_include_directories(rotary_gpu_emulated BEFORE PUBLIC ${shim} PRIVATE ${PROJECT_SOURCE_DIR}
                           PUBLIC ${PROJECT_SOURCE_DIR}/gpu/include)
# Kernels see vectors and numbers in the same memory, as nvcc lets them; #pragma unroll is nvcc's, and clang's too.
target_compile_options(rotary_gpu_emulated PRIVATE -fno-strict-aliasing -Wno-unknown-pragmas
                       $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>)
target_compile_definitions(rotary_gpu_emulated PUBLIC ROTARY_GPU_EMULATED)
target_link_libraries(rotary_gpu_emulated PRIVATE rotary_flags rotary_gpu_internal PUBLIC rotary::rotary)
