# rotary_embed(SOURCES FILE SYMBOL): appends to the list SOURCES a source, made at build time, that holds FILE's bytes:
#
#     namespace rotary::embedded { std::string_view SYMBOL() noexcept; }
#
# The caller declares that function. Call it in the CMakeLists.txt of the target. CMake itself makes the source, so it
# works when cross compiling. The bytes are characters, not a string literal, whose length compilers limit.
function(rotary_embed sources file symbol)
  get_filename_component(file "${file}" ABSOLUTE)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded/${symbol}.cpp)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake)
  add_custom_command(OUTPUT ${source}
                     COMMAND ${CMAKE_COMMAND} -DFILE=${file} -DSYMBOL=${symbol} -DSOURCE=${source} -P ${script}
                     DEPENDS ${file} ${script} VERBATIM)
  set(${sources} ${${sources}} ${source} PARENT_SCOPE)
endfunction()
