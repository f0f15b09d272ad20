// A picture as a file: SVG, or PNG by rsvg-convert.
#pragma once

#include <string>

namespace rotary::cli {

// Before the work: throws FORMAT unless the name is "-" or ends in .svg or .png, FILE where the folder is missing or
// PNG is asked for and rsvg-convert is not there.
void check_picture(const char* operation, const std::string& path);

// The whole file or nothing; "-" is standard output.
void write_picture(const char* operation, const std::string& path, const std::string& svg);

}  // namespace rotary::cli
