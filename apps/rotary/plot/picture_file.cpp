// A picture as a file: SVG, or PNG by rsvg-convert.
#include <filesystem>
#include <iostream>
#include <optional>

#include "apps/shared/system.h"
#include "apps/shared/tensors.h"
#include "files/text/io.h"
#include "files/text/paths.h"
#include "request.h"
#include "rotary/error.h"

namespace rotary::cli {

namespace {

namespace fs = std::filesystem;

// In the folders of PATH.
std::optional<fs::path> converter() {
  const std::string path = environment("PATH");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const fs::path program = fs::path(path.substr(begin, end - begin)) / "rsvg-convert";
    std::error_code ignored;
    if (end > begin && fs::is_regular_file(program, ignored) && can_run(program)) return program;
    begin = end + 1;
  }
  return std::nullopt;
}

bool is_png(const std::string& path) {
  return files::lower(files::path_text(files::path_of(path).extension())) == ".png";
}

// Removes the file at the end.
struct Temporary {
  fs::path path;
  ~Temporary() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

std::string png_of(const char* operation, const std::string& path, const std::string& svg) {
  const Temporary source{files::path_of(path + ".rotary.svg")};
  files::write_whole(operation, source.path, svg);
  std::string name = "'";  // for the shell
  for (const char letter : fs::absolute(source.path).string())
    name += letter == '\'' ? "'\\''" : std::string(1, letter);
  const std::optional<std::string> png = output_of(*converter(), "--format=png --zoom=2 " + name + "'");
  if (!png || !png->starts_with("\x89PNG")) {
    throw Error(Code::FILE, std::string("[") + operation + "] rsvg-convert must make a PNG of the picture but failed");
  }
  return *png;
}

}  // namespace

void check_picture(const char* operation, const std::string& path) {
  if (is_dash(files::path_of(path))) return;
  const std::string in_brackets = std::string("[") + operation + "] ";
  if (!is_png(path) && files::lower(files::path_text(files::path_of(path).extension())) != ".svg") {
    throw Error(Code::FORMAT, in_brackets + "a picture is SVG or PNG: --output must end in .svg or .png but got '" +
                                  files::printable(path) + "'");
  }
  check_output(files::path_of(path));
  if (is_png(path) && !converter()) {
    throw Error(Code::FILE,
                in_brackets +
                    "a PNG needs the program rsvg-convert (package librsvg2-bin of Debian and Ubuntu, "
                    "librsvg of Homebrew, librsvg2-tools of Fedora) but it is not in PATH; SVG needs nothing");
  }
}

void write_picture(const char* operation, const std::string& path, const std::string& svg) {
  if (is_dash(files::path_of(path))) {
    std::cout << svg;
  } else {
    files::write_whole(operation, files::path_of(path), is_png(path) ? png_of(operation, path, svg) : svg);
  }
}

}  // namespace rotary::cli
