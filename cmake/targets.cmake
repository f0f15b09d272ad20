# The instruction sets: one line each. cpu/target.cpp (the rotation) and cpu/angles.cpp (cos and sin) are compiled once
# per set, with that set's flags and that set's lanes.

# rotary_target(NAME FLAGS...): cpu/lanes/NAME.h and its flags. ANGLES NAME: which cpu/lanes/angles_*.h the tables use.
function(rotary_target library name)
  cmake_parse_arguments(arg "" "ANGLES" "FLAGS" ${ARGN})
  set(object rotary_${name})
  add_library(${object} OBJECT src/cpu/target.cpp src/cpu/angles.cpp)
  target_include_directories(${object} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(${object} PRIVATE ROTARY_TARGET_NAME=${name} "ROTARY_LANES=\"cpu/lanes/${name}.h\""
                                               "ROTARY_ANGLE_LANES=\"cpu/lanes/angles_${arg_ANGLES}.h\"")
  target_compile_options(${object} PRIVATE ${arg_FLAGS})
  target_compile_features(${object} PRIVATE cxx_std_20)
  target_link_libraries(${object} PRIVATE $<BUILD_INTERFACE:rotary_flags>)
  target_sources(${library} PRIVATE $<TARGET_OBJECTS:${object}>)
  set(rotary_target_objects ${rotary_target_objects} ${object} PARENT_SCOPE)
  string(TOUPPER ${name} upper)
  target_compile_definitions(${library} PRIVATE ROTARY_HAS_${upper}=1)
endfunction()

macro(rotary_add_targets library)
  rotary_target(${library} scalar ANGLES scalar)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    rotary_target(${library} sse2 ANGLES scalar FLAGS -msse2)
    rotary_target(${library} avx2 ANGLES avx2 FLAGS -mavx2 -mfma -mf16c)
    set(avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c -mprefer-vector-width=512)
    rotary_target(${library} avx512 ANGLES avx512 FLAGS ${avx512})
    rotary_target(${library} avx512bf16 ANGLES avx512 FLAGS ${avx512} -mavx512bf16)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
    rotary_target(${library} neon ANGLES scalar)
  endif()
endmacro()
