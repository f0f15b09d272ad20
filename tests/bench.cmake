if(ROTARY_CLI)
  set(cli ${PROJECT_SOURCE_DIR}/cli)
  rotary_test(bench_test bench_test.cpp bench_command_test.cpp ${cli}/bench_cell.cpp ${cli}/bench_grid.cpp ${cli}/bench_growth.cpp
              ${cli}/bench_measure.cpp ${cli}/bench_memory.cpp ${cli}/bench_report.cpp ${cli}/bench_verify.cpp ${cli}/stopwatch.cpp
              LIBS rotary_cli_parts)
  target_compile_definitions(bench_test PRIVATE ROTARY_PROGRAM="$<TARGET_FILE:rotary_cli>")
  add_dependencies(bench_test rotary_cli)
endif()
