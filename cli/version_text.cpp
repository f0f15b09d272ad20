// The text of rotary --version.
#include <string>
#include <vector>

#include "commands.h"
#include "rotary/config.h"
#include "rotary/error.h"
#include "rotary/gpu.h"
#include "rotary/targets.h"
#include "rotary/version.h"
#include "shared/text.h"
#include "text/paths.h"

namespace rotary::cli {

namespace {

std::string targets_text() {
  std::vector<std::string> runs, lacking;
  for (const Target& target : targets()) (target.runs ? runs : lacking).emplace_back(target.name);
  const std::string text = joined(runs) + (lacking.empty() ? "" : "; not on this machine: " + joined(lacking));
  try {
    return text + "; in use: " + std::string(chosen_target());
  } catch (const Error&) {
    return text + "; in use: none, because ROTARY_TARGET names one that does not run here";
  }
}

std::string gpu_text() {
  if (!gpu::built()) return "built without CUDA (-DROTARY_CUDA=ON adds it)";
  const int count = gpu::devices();
  if (count == 0) return "built with CUDA; no device";
  return "built with CUDA; " + std::to_string(count) + (count == 1 ? " device" : " devices");
}

std::string compiler_text() {
#if defined(__clang__)
  std::string text = "clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__);
#elif defined(__GNUC__)
  std::string text = "g++ " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__);
#else
  std::string text = "unknown";
#endif
  return text + ", " ROTARY_BUILD_TYPE;
}

std::string models_text() {
  const ModelData data = model_data();
  return data.version + (data.file.empty() ? "" : ", of " + printable(files::path_text(data.file)));
}

}  // namespace

std::string version_text() {
  return std::string("rotary ") + ROTARY_VERSION + "\ntargets   " + targets_text() + "\ngpu       " + gpu_text() +
         "\ncompiler  " + compiler_text() + "\nmodels    " + models_text();
}

}  // namespace rotary::cli
