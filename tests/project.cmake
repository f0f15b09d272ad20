add_test(NAME "includes point downward" COMMAND ${PROJECT_SOURCE_DIR}/tools/check_layers ${PROJECT_SOURCE_DIR})
set_tests_properties("includes point downward" PROPERTIES LABELS once)
if(TARGET rotary_cli)
  set(flags)
  if(ROTARY_SANITIZE)
    set(flags -fsanitize=${ROTARY_SANITIZE})
  endif()
  add_test(NAME "an installed rotary is found and the README's program runs"
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/install_test.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
                   ${CMAKE_CXX_COMPILER} ${flags})
endif()
