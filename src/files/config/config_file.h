// A config's JSON file in the three forms that who changes it needs, from one reading.
#pragma once

#include <filesystem>
#include <string>

#include "files/text/json.h"
#include "rotary/config.h"

namespace rotary::files {

struct ConfigFile {
  std::string text;
  Json json;
  Model model;
};

// config.json or params.json; no folder. Throws as read_config does.
ConfigFile read_config_file(const std::filesystem::path&, const ConfigOptions&);

}  // namespace rotary::files
