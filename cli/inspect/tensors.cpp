// The tensors of a file.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "rotary/tensors.h"
#include "shared/columns.h"
#include "shared/command.h"
#include "shared/description.h"
#include "shared/tensors.h"
#include "shared/text.h"
#include "shown.h"
#include "tensors/formats.h"
#include "text/paths.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

// A long list of numbers, or a whole config, would fill the screen: --json has all of it.
std::string shortened(std::string text) {
  constexpr std::size_t longest = 72;
  if (text.size() <= longest) return text;
  std::size_t end = longest - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // within a UTF-8 character
  return text.substr(0, end) + "...";
}

void print_metadata(const std::map<std::string, std::string>& metadata) {
  std::vector<Cells> rows;
  for (const auto& [key, value] : metadata) {
    if (!value.empty()) rows.push_back({printable(key), shortened(printable(value))});
  }
  if (rows.empty()) return;
  std::cout << "\nmetadata\n" << Columns({{}, {}}, 2, "  ").fit(rows).text(rows);
}

using Metadata = std::map<std::string, std::string>;

void print(const std::vector<TensorInfo>& tensors, const Metadata& metadata) {
  if (asks_json()) {
    Json list = Json::array();
    for (const TensorInfo& tensor : tensors)
      list.push_back({{"name", tensor.name}, {"dtype", name(tensor.type)}, {"shape", tensor.shape}});
    return print_json(json_text({{"tensors", std::move(list)}, {"metadata", metadata}}));
  }
  std::vector<Cells> rows = {{"name", "dtype", "shape"}};
  for (const TensorInfo& tensor : tensors) {
    rows.push_back({tensor.name.empty() ? "-" : printable(tensor.name), name(tensor.type), shape_text(tensor.shape)});
  }
  std::cout << Columns({{}, {.width = 7}, {}}).fit(rows).text(rows);
  print_metadata(metadata);
}

}  // namespace

void inspect_tensors(const Source& source, std::vector<std::byte> stream) {
  if (has_rope_options(source)) throw UsageError("a file of tensors has no rope: only --json goes with it");
  const std::filesystem::path path = files::path_of(source.config);
  if (stream.empty()) return print(tensor_infos(path), tensor_metadata(path));
  const InputTensors input(std::move(stream), files::stream_name(path));
  print(input.infos(), input.metadata());
}

}  // namespace rotary::cli
