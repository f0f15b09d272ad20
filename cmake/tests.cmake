# Functions that the tests of all parts share.
find_package(GTest REQUIRED)
include(GoogleTest)
# All programs of tests lie together, in tests/ of the build folder.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)

# rotary_tests_of(PART LIBRARY): the calls below it in a CMakeLists.txt add tests of PART, which see the internal
# headers of LIBRARY and of the parts below it. PART is their label, and PART_tests builds them (scripts/test.sh PART).
macro(rotary_tests_of name library)
  set(part ${name})
  set(part_library ${library})
  add_custom_target(${part}_tests)
endmacro()

# rotary_test_program(NAME SOURCES... [LIBS ...]): a program that tests, gtest or not.
function(rotary_test_program name)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  add_dependencies(${part}_tests ${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE ROTARY_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             ROTARY_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE rotary_flags ${part_library}_internal ${arg_LIBS})
endfunction()

# rotary_test(NAME SOURCES... [LIBS ...]): one gtest program.
function(rotary_test name)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  rotary_test_program(${name} ${arg_UNPARSED_ARGUMENTS} LIBS rotary::rotary ${arg_LIBS} GTest::gtest_main)
  rotary_unity(${name})
  # The judges, not the judged: a third less to compile; tests without long loops (text_tests) a fifth less again.
  target_compile_options(${name} PRIVATE $<IF:$<BOOL:${text_tests}>,-O0,$<$<CONFIG:Release>:-O1>>)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 LABELS ${part})
endfunction()

if(ROTARY_CUDA)
  add_custom_target(cuda_tests)  # the tests that the stage cuda of scripts/test.sh runs
endif()
# rotary_device_test(NAME SOURCES... [LIBS ...]): a rotary_test on the emulator and, where there is CUDA, on_NAME on the
# real library, one test that is skipped where there is no GPU.
function(rotary_device_test name)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  rotary_test(${name} ${arg_UNPARSED_ARGUMENTS} LIBS ${arg_LIBS} rotary_gpu_emulated)
  if(ROTARY_CUDA)
    rotary_test_program(on_${name} main.cpp ${arg_UNPARSED_ARGUMENTS}
                        LIBS ${arg_LIBS} rotary::gpu CUDA::cudart_static GTest::gtest)
    rotary_unity(on_${name})
    target_compile_options(on_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    add_dependencies(cuda_tests on_${name})
    add_test(NAME "on the GPU: ${name}" COMMAND on_${name})
    set_tests_properties("on the GPU: ${name}" PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 LABELS ${part})
  endif()
endfunction()

# rotary_fuzz_test(NAME ROUNDS [LIBS ...]): fuzz/NAME.cpp as an ordinary test of its seeds, of the inputs of
# fuzz/NAME.corpus and of ROUNDS seeded random mutations, with any compiler; with ROTARY_FUZZ also fuzz_NAME, the same
# body under libFuzzer (scripts/fuzz.sh).
set(fuzz ${PROJECT_SOURCE_DIR}/core/tests/fuzz)
set(fuzz_flags -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all -fno-omit-frame-pointer)
if(ROTARY_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "ROTARY_FUZZ needs clang: -DCMAKE_CXX_COMPILER=clang++")
  endif()
  foreach(library rotary rotary_files rotary_tools)  # not the kernels, which would compile for minutes each
    if(TARGET ${library})
      target_compile_options(${library} PRIVATE ${fuzz_flags} -fsanitize=fuzzer-no-link)
    endif()
  endforeach()
  target_link_options(rotary PUBLIC ${fuzz_flags})
endif()
add_library(fuzz_replay OBJECT EXCLUDE_FROM_ALL ${fuzz}/replay.cpp)
target_link_libraries(fuzz_replay PRIVATE rotary_flags rotary::rotary)
function(rotary_fuzz_test name rounds)
  rotary_test_program(replay_${name} fuzz/${name}.cpp LIBS fuzz_replay rotary::rotary ${ARGN})
  target_compile_options(replay_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  add_test(NAME fuzz.${name} COMMAND replay_${name} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/${name}.corpus ${rounds} 1)
  set_tests_properties(fuzz.${name} PROPERTIES TIMEOUT 600 LABELS ${part})
  if(ROTARY_FUZZ)
    rotary_test_program(fuzz_${name} fuzz/${name}.cpp ${fuzz}/libfuzzer.cpp LIBS rotary::rotary ${ARGN})
    target_compile_options(fuzz_${name} PRIVATE ${fuzz_flags} -fsanitize=fuzzer-no-link)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  endif()
endfunction()
