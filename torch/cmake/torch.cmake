# rotary_libtorch: an installed torch as one imported target. TORCH_ROOT is the folder that holds torch/ (site-packages)
# or the torch folder itself; scripts/torch.sh prints one. The wheel's own find_package(Torch) needs a CUDA toolkit.

set(TORCH_ROOT "" CACHE PATH "The site-packages folder that holds torch, or the torch folder itself")
set(torch_folder "")
foreach(candidate IN ITEMS "${TORCH_ROOT}/torch" "${TORCH_ROOT}")
  if(NOT torch_folder AND EXISTS "${candidate}/lib/libtorch_cpu.so" AND EXISTS "${candidate}/include/torch/library.h")
    set(torch_folder "${candidate}")
  endif()
endforeach()
if(NOT torch_folder)
  message(FATAL_ERROR "ROTARY_TORCH needs TORCH_ROOT, a folder with torch/lib/libtorch_cpu.so and torch/include, "
                      "but got '${TORCH_ROOT}': scripts/torch.sh installs one and prints it")
endif()

set(torch_version "")
foreach(header IN ITEMS torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
  if(EXISTS "${torch_folder}/include/${header}" AND NOT torch_version)
    file(STRINGS "${torch_folder}/include/${header}" lines REGEX "define TORCH_VERSION_M[A-Z]+ [0-9]+")
    if(lines MATCHES "MAJOR ([0-9]+).*MINOR ([0-9]+)")
      set(torch_version "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}")
    endif()
  endif()
endforeach()
if(NOT torch_version OR torch_version VERSION_LESS 2.8)
  message(FATAL_ERROR "rotary_torch needs torch 2.8 or newer but ${torch_folder} has '${torch_version}'")
endif()

# The CUDA build of libtorch_cpu needs libcudart and libcupti, which lie in wheels of their own next to it.
file(GLOB torch_cuda_folders "${torch_folder}/../nvidia/cu[0-9]*/lib" "${torch_folder}/../nvidia/cuda_runtime/lib"
                             "${torch_folder}/../nvidia/cuda_cupti/lib")
set(torch_library_folders "${torch_folder}/lib")
foreach(folder IN LISTS torch_cuda_folders)
  get_filename_component(folder "${folder}" ABSOLUTE)
  list(APPEND torch_library_folders "${folder}")
endforeach()

add_library(rotary_libtorch INTERFACE)
set_target_properties(rotary_libtorch PROPERTIES EXPORT_NAME libtorch)
# As expressions: CMake exports no plain path inside the source tree, where a virtual environment may well lie.
target_include_directories(rotary_libtorch SYSTEM INTERFACE "$<1:${torch_folder}/include>"
                                                            "$<1:${torch_folder}/include/torch/csrc/api/include>")
target_compile_features(rotary_libtorch INTERFACE cxx_std_20)
target_link_libraries(rotary_libtorch INTERFACE "${torch_folder}/lib/libtorch_cpu.so" "${torch_folder}/lib/libc10.so")
foreach(folder IN LISTS torch_library_folders)
  target_link_options(rotary_libtorch INTERFACE "LINKER:-rpath,${folder}" "LINKER:-rpath-link,${folder}")
endforeach()

# at::parallel_for is a template over OpenMP: it is parallel only where its caller is compiled with OpenMP, and shares
# torch's threads only with the very libgomp that torch loads.
file(GLOB torch_gomp "${torch_folder}/lib/libgomp*.so*" "${torch_folder}/../torch.libs/libgomp*.so*")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND torch_gomp)
  list(GET torch_gomp 0 torch_gomp)
  target_compile_options(rotary_libtorch INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fopenmp>)
  target_link_libraries(rotary_libtorch INTERFACE "${torch_gomp}")
else()
  message(STATUS "rotary_torch: no OpenMP shared with torch by this compiler, rotations run on the caller's thread")
endif()
message(STATUS "rotary_torch: torch ${torch_version} in ${torch_folder}")
