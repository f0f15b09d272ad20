// A plan in the words of other files than config.json: params.json of Mistral and of Meta, and the options of
// llama.cpp, which runs GGUF files.
#pragma once

#include <string>

#include "forms.h"

namespace rotary::extend {

bool is_params(const Situation&);

struct Native {
  std::string config;  // the whole text of the new params.json
  std::string wrong;   // why such a file cannot say it; config is "" then
};
Native native(const Situation&, const Wanted&);

// "--ctx-size 131072 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768"; "" where no options say it.
std::string llama_cpp_options(const Situation&, const Proposal&);

}  // namespace rotary::extend
