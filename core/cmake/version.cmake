# rotary_version: the version of core/include/rotary/version.h, the one place where it is written.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../include/rotary/version.h rotary_version REGEX "define ROTARY_VERSION \"")
string(REGEX REPLACE ".*\"(.*)\".*" "\\1" rotary_version "${rotary_version}")
