// rotary convert of a single file: a KV cache, or a table of cos and sin.
#pragma once

#include <string>
#include <vector>

#include "convert/cache.h"

namespace rotary::cli {

struct ConvertOptions {
  std::string input;
  std::string to;
  std::string from;
  std::string output;
  bool dry_run = false;
  bool verify = false;
  bool json = false;
  // of a file
  std::string config;
  convert::KeyShape keys;
  std::vector<std::string> tensors;
  std::string form;
};

void convert_file(const ConvertOptions&);

}  // namespace rotary::cli
