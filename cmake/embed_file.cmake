# cmake -DFILE=... -DSYMBOL=... -DSOURCE=... -P embed_file.cmake: the work of rotary_embed.
file(READ ${FILE} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
get_filename_component(name ${FILE} NAME)
file(WRITE ${SOURCE} "// ${name}, by cmake/embed.cmake.
#include <string_view>

namespace rotary::embedded {
std::string_view ${SYMBOL}() noexcept;
std::string_view ${SYMBOL}() noexcept {
  static constexpr char bytes[] = {${bytes}'\\0'};
  return {bytes, sizeof bytes - 1};
}
}  // namespace rotary::embedded
")
