#include "demo_data.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/shared/system.h"
#include "demo_places.h"
#include "files/text/paths.h"

namespace rotary::cli {

namespace {

Tensor widen(const Tensor& narrow) {
  Tensor wide;
  wide.name = narrow.name;
  wide.type = ElementType::f32;
  wide.shape = narrow.shape;
  wide.bytes = 2 * narrow.bytes;
  wide.data.resize(2 * narrow.data.size());
  const std::span<const bf16> values = narrow.as<bf16>();
  std::transform(values.begin(), values.end(), wide.as<float>().begin(), [](bf16 value) { return to_float(value); });
  return wide;
}

Tensor read_bf16(const SafetensorsFile& file, const char* name) {
  Tensor tensor = file.read(name);
  if (tensor.type != ElementType::bf16 || tensor.shape.size() != 4 || tensor.shape[1] < 16 || tensor.shape[3] != 128) {
    throw Error(Code::FORMAT, std::string("[demo] ") + name + " must be bf16 [batch, 16 or more, heads, 128]");
  }
  return tensor;
}

}  // namespace

std::filesystem::path find_demo_data(const std::string& wanted) {
  if (!wanted.empty()) return files::path_of(wanted);
  std::error_code ignored;
  const std::filesystem::path program = program_path();
  for (const std::filesystem::path& folder : {program.parent_path() / "../share/rotary/demo",
                                              files::path_of(demo_in_source), files::path_of(demo_installed)}) {
    if (std::filesystem::exists(folder / "config.json", ignored)) return folder.lexically_normal();
  }
  throw Error(Code::FILE, "[demo] the bundled data lies neither beside the program nor in " +
                              std::string(demo_in_source) + ": say where with --data");
}

DemoData load_demo_data(const std::filesystem::path& folder) {
  DemoData data;
  const SafetensorsFile file(folder / "qk.safetensors");
  data.q = read_bf16(file, "q");
  data.k = read_bf16(file, "k");
  data.q32 = widen(data.q);
  data.k32 = widen(data.k);
  std::ifstream stream(folder / "high_precision.json");
  if (!stream) throw Error(Code::FILE, "[demo] cannot read " + files::path_text(folder / "high_precision.json"));
  try {
    const nlohmann::json json = nlohmann::json::parse(stream);
    for (const nlohmann::json& text : json.at("inv_freq")) {
      data.inv_freq.push_back(std::strtod(text.get<std::string>().c_str(), nullptr));
    }
    for (const nlohmann::json& row : json.at("angles")) {
      data.angles.push_back({row.at("position").get<std::int64_t>(), row.at("cos").get<std::vector<std::string>>(),
                             row.at("sin").get<std::vector<std::string>>()});
      const ExactAngles& added = data.angles.back();
      if (added.cos.size() != data.inv_freq.size() || added.sin.size() != data.inv_freq.size()) {
        throw Error(Code::JSON, "[demo] high_precision.json must have one cos and sin per inv_freq");
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(Code::JSON, std::string("[demo] high_precision.json: ") + error.what());
  }
  if (data.inv_freq.size() != 64) throw Error(Code::JSON, "[demo] high_precision.json must have 64 values of inv_freq");
  return data;
}

Layout layout_of(const Tensor& tensor) {
  return bthd(tensor.shape[0], tensor.shape[1], tensor.shape[2], static_cast<int>(tensor.shape[3]));
}

std::vector<float> floats_of(const Tensor& tensor) {
  const std::span<const float> values = tensor.as<float>();
  return {values.begin(), values.end()};
}

}  // namespace rotary::cli
