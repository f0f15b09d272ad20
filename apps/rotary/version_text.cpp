// What rotary --version prints.
#include <optional>
#include <string>
#include <vector>

#include "apps/shared/text.h"
#include "apps/shared/torch_commands.h"
#include "commands.h"
#include "rotary/error.h"
#include "rotary/gpu.h"
#include "rotary/targets.h"
#include "rotary/version.h"
#include "torch_program.h"

namespace rotary::cli {

namespace {

std::string targets_text() {
  std::vector<std::string> runs, lacking;
  for (const Target& target : targets()) (target.runs ? runs : lacking).emplace_back(target.name);
  const std::string text = joined(runs) + (lacking.empty() ? "" : "; not on this machine: " + joined(lacking));
  try {
    return text + "; in use: " + std::string(chosen_target());
  } catch (const Error&) {
    return text + "; in use: none, because ROTARY_TARGET names one that is not there";
  }
}

std::string gpu_text() {
  if (!gpu::built()) return "built without CUDA (-DROTARY_CUDA=ON adds it)";
  const int count = gpu::devices();
  if (count == 0) return "built with CUDA; no device";
  return "built with CUDA; " + std::to_string(count) + (count == 1 ? " device" : " devices");
}

std::string torch_text() {
  std::vector<std::string> names;
  for (const TorchCommand& command : torch_commands) names.emplace_back(command.name);
  const std::string commands = joined(names);
  const std::optional<std::string> parts = ask_torch_program("--parts");
  if (!parts) return "not built (from source, scripts/build.sh --with torch adds " + commands + ")";
  return parts->substr(0, parts->find('\n')) + "; adds " + commands;
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

}  // namespace

std::string version_text() {
  return std::string("rotary ") + ROTARY_VERSION + "\ntargets   " + targets_text() + "\ngpu       " + gpu_text() +
         "\ntorch     " + torch_text() + "\ncompiler  " + compiler_text();
}

}  // namespace rotary::cli
